//! Properties of connections, frames and metadata (wire.md 15, metadata.md 14).

use std::time::Duration;

use super::choices::DnsLookup;
use super::property::{Property, Share, SocketBuffer};
use super::section::{choice, ms, section};
use crate::cluster::Endpoint;
use crate::ids::Rack;
use crate::records::BatchPolicy;

section! {
    /// Who we are, whom we dial, and how patiently.
    Connection {
        /// Where to find the cluster; required.
        "bootstrap.servers" bootstrap: Vec<Endpoint> = Vec::new();
        /// What becomes of the names there.
        "client.dns.lookup" dns_lookup: DnsLookup = DnsLookup::UseAllDnsIps;
        /// Name shown in the brokers' logs and quotas.
        "client.id" client_id: String = "nearside".into();
        /// The rack (availability zone) this process runs in.
        "client.rack" rack: Option<Rack> = None;
        /// Pause before the first new attempt to connect.
        "reconnect.backoff.ms" reconnect: Duration = ms(50);
        /// Longest pause between attempts to connect.
        "reconnect.backoff.max.ms" reconnect_max: Duration = ms(5_000);
        /// Budget of one connection setup, name lookup to handshake.
        "socket.connection.setup.timeout.ms" setup: Duration = ms(10_000);
        /// Largest setup budget after failures.
        "socket.connection.setup.timeout.max.ms" setup_max: Duration = ms(30_000);
        /// How long an answer may take.
        "request.timeout.ms" request: Duration = ms(30_000);
        /// How long an operation of several requests may take.
        "default.api.timeout.ms" operation: Duration = ms(60_000);
        /// Idle connections close after this.
        "connections.max.idle.ms" idle: Duration = ms(240_000);
        /// Pause before the first retry of a request.
        "retry.backoff.ms" retry: Duration = ms(100);
        /// Longest pause between retries of a request.
        "retry.backoff.max.ms" retry_max: Duration = ms(1_000);
        /// Size of the system's buffer for what is sent, in bytes; -1: as the system likes.
        "send.buffer.bytes" send_buffer: SocketBuffer = SocketBuffer(None);
        /// Size of the system's buffer for what is received, in bytes; -1: as the system likes.
        "receive.buffer.bytes" receive_buffer: SocketBuffer = SocketBuffer(None);
        /// Largest answer accepted to a Fetch, in bytes.
        "receive.message.max.bytes" answer_max: u32 = 104_857_600;
    }
}

section! {
    /// Limits of frames and batches (wire.md 15).
    Wire {
        /// Largest frame while a connection is being set up, in bytes.
        "wire.frame.setup.max.bytes" frame_setup_max: u32 = 262_144;
        /// Largest frame of answers other than Fetch, in bytes.
        "wire.frame.max.bytes" frame_max: u32 = 33_554_432;
        /// Largest batch after decompression, in bytes; unset: 64 MiB or the inflation share if
        /// smaller.
        "wire.batch.inflated.max.bytes" inflated_max: Option<u64> = None;
        /// What is done with a batch that neither its replica nor the leader can serve whole.
        "wire.batch.policy" batch_policy: BatchPolicy = BatchPolicy::Halt;
        /// Part of the memory budget kept for producing.
        "wire.budget.produce.share" produce_share: Share = Share(0.25);
        /// Part of the memory budget kept for decompression.
        "wire.budget.inflate.share" inflate_share: Share = Share(0.25);
        /// How long one address of several may take to connect.
        "wire.address.timeout.ms" address: Duration = ms(2_000);
        /// How long a name lookup may take.
        "wire.dns.timeout.ms" dns: Duration = ms(5_000);
        /// How long an old list of addresses serves while lookups fail.
        "wire.dns.stale.ms" dns_stale: Duration = ms(300_000);
        /// Pause after a port turned out to speak something else.
        "wire.mixup.backoff.ms" mixup: Duration = ms(30_000);
        /// How long a connection may take to finish what is in flight.
        "wire.drain.ms" drain: Duration = ms(2_000);
        /// Longest throttle time believed.
        "wire.throttle.max.ms" throttle_max: Duration = ms(60_000);
        /// Whether what is else tolerated and counted in answers and batches is an error; for
        /// tests.
        "wire.strict" strict: bool = false;
    }
}

choice! {
    /// What happens when the known nodes do not answer.
    Recovery {
        /// Back to the bootstrap names (KIP-899).
        Rebootstrap = "rebootstrap",
        /// Keep trying.
        None = "none",
    }
}

choice! {
    /// What happens when another cluster answers.
    ClusterChange {
        /// Stop.
        Fail = "fail",
        /// Start afresh on it.
        Follow = "follow",
    }
}

section! {
    /// The view of the cluster (metadata.md 14).
    Metadata {
        /// Everything subscribed is asked for at least this often.
        "metadata.max.age.ms" age_max: Duration = ms(300_000);
        /// What happens when the known nodes do not answer.
        "metadata.recovery.strategy" recovery: Recovery = Recovery::Rebootstrap;
        /// Time without a refresh since one became due, until nodes are looked up anew.
        "metadata.recovery.rebootstrap.trigger.ms" rebootstrap_after: Duration = ms(300_000);
        /// Whether addresses in leadership hints are used.
        "route.hint.endpoints" hint_endpoints: HintEndpoints = HintEndpoints::Accept;
        /// Retries without backoff per partition and second.
        "route.hint.free.per.sec" free_retries: u32 = 5;
        /// How long hints that went in circles are ignored.
        "route.hint.distrust.ms" hint_distrust: Duration = ms(60_000);
        /// How long an urgent refresh waits for company.
        "route.meta.debounce.ms" debounce: Duration = ms(50);
        /// An answer later than this counts as a failure.
        "route.meta.attempt.ms" attempt: Duration = ms(2_000);
        /// Longest pause between refreshes that bring nothing wanted.
        "route.meta.noprogress.max.ms" no_progress_max: Duration = ms(5_000);
        /// How long a topic must be absent before it counts as gone.
        "route.meta.unconfirmed.ms" unconfirmed: Duration = ms(30_000);
        /// How long a lower epoch must be repeated before it is believed.
        "route.meta.regress.ms" regress: Duration = ms(30_000);
        /// What happens when another cluster answers.
        "route.cluster.change" cluster_change: ClusterChange = ClusterChange::Fail;
        /// How long a broker without a free session slot is read without one.
        "route.session.retry.ms" session_retry: Duration = ms(600_000);
    }
}

/// Whether addresses in leadership hints are used (metadata.md 5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HintEndpoints {
    /// Any address.
    Accept,
    /// Hosts Metadata has named, and hosts with one of these suffixes.
    KnownHosts(Vec<String>),
    /// None.
    IdsOnly,
}

impl Property for HintEndpoints {
    fn accepts() -> String {
        "one of `accept`, `known_hosts`, `known_hosts:<suffix>,<suffix>`, `ids_only`".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "accept" => Some(Self::Accept),
            "known_hosts" => Some(Self::KnownHosts(Vec::new())),
            "ids_only" => Some(Self::IdsOnly),
            other => Vec::parse(other.strip_prefix("known_hosts:")?)
                .filter(|suffixes| !suffixes.is_empty())
                .map(Self::KnownHosts),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Accept => "accept".into(),
            Self::KnownHosts(suffixes) if suffixes.is_empty() => "known_hosts".into(),
            Self::KnownHosts(suffixes) => format!("known_hosts:{}", suffixes.show()),
            Self::IdsOnly => "ids_only".into(),
        }
    }
}
