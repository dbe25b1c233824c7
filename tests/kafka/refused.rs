//! Who is refused, by us or by the broker, is told why, and asks again after one second, then two,
//! then four: never in a loop, and never not at all.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use nearside::cli::kafka::{Cluster, Listener, until};
use nearside::error::ErrorKind;
use nearside::fleet::{BoxFuture, FleetHandle, Stream, Tcp, Transport};
use nearside::prelude::*;
use tokio::runtime::Runtime;

use crate::keys::Keys;
use crate::lab::Outcome as Verdict;
use crate::security::{consume, denied, with_certificate, with_password};

/// One way to be refused.
struct Refusal {
    bootstrap: String,
    properties: Vec<String>,
    /// What is said of it.
    why: &'static str,
}

/// wire.md C4
pub(crate) fn all_are_told_why_and_wait(cluster: &Cluster, keys: &Keys) -> Verdict {
    let refusals = refusals(cluster, keys);
    for Refusal {
        bootstrap,
        properties,
        why,
    } in &refusals
    {
        denied(&consume(bootstrap, "g", properties), why);
    }
    let runtime = Runtime::new()?;
    let waiting = refusals.iter().map(|one| Waiting::start(&runtime, one));
    let waiting = waiting.collect::<Result<Vec<_>, Failed>>()?;
    until("five dials each", Duration::from_secs(60), || {
        let dials: Vec<_> = waiting.iter().map(|one| one.dials.count()).collect();
        let enough = dials.iter().all(|count| *count >= DIALS);
        enough.then_some(()).ok_or_else(|| format!("{dials:?}"))
    })?;
    for one in waiting {
        one.judge();
        drop(runtime.block_on(one.fleet.stop(Duration::from_secs(20))));
    }
    Ok(())
}

fn refusals(cluster: &Cluster, keys: &Keys) -> Vec<Refusal> {
    let trust = format!("ssl.truststore.certificates={}", keys.authority);
    let stranger = format!("ssl.truststore.certificates={}", Keys::make().authority);
    let [sasl, ssl, expired] = [Listener::SaslSsl, Listener::Ssl, Listener::Expired]
        .map(|listener| cluster.secured_bootstrap(listener));
    let refusal = |bootstrap: &str, properties, why| Refusal {
        bootstrap: bootstrap.to_owned(),
        properties,
        why,
    };
    let scram = |trust, password| with_password(trust, "SCRAM-SHA-512", password);
    vec![
        refusal(
            &sasl,
            scram(&trust, "wrong-horse"),
            "Authentication failed during authentication due to invalid credentials",
        ),
        refusal(
            &sasl,
            with_password(&trust, "PLAIN", "wrong-horse"),
            "Authentication failed: Invalid username or password",
        ),
        refusal(
            &sasl.replace("localhost", "127.0.0.1"),
            scram(&trust, "correct-horse"),
            "the certificate is not for 127.0.0.1 but for DNS:localhost",
        ),
        refusal(
            &sasl,
            scram(&stranger, "correct-horse"),
            "nobody we trust has issued the certificate of localhost",
        ),
        refusal(
            &expired,
            with_certificate(&trust, None),
            "the certificate of localhost expired on 2021-01-01",
        ),
        refusal(
            &ssl,
            with_certificate(&trust, None),
            "client certificate not accepted",
        ),
        refusal(
            &ssl,
            with_certificate(&trust, Some(&keys.expired)),
            "client certificate not accepted",
        ),
    ]
}

/// A fleet that nobody lets in.
struct Waiting {
    fleet: FleetHandle,
    dials: Arc<Dials>,
    why: &'static str,
}

impl Waiting {
    fn start(runtime: &Runtime, refusal: &Refusal) -> Result<Self, Failed> {
        let dials = Arc::<Dials>::default();
        let nothing = handler_fn(|_: Message<Raw>, _| std::future::ready(Ok(Outcome::Done)));
        let mut fleet = Fleet::builder("refused")
            .bootstrap(&refusal.bootstrap)
            .transport(Arc::<Dials>::clone(&dials))
            .subscribe(Subscription::topics(["orders"]).handler(nothing));
        for property in &refusal.properties {
            let (key, value) = property.split_once('=').ok_or("not a property")?;
            fleet = fleet.property(key, value);
        }
        Ok(Self {
            fleet: runtime.block_on(fleet.start())?,
            dials,
            why: refusal.why,
        })
    }

    /// The right words, and pauses of 1, 2, 4 and 8 seconds, each a fifth more or less.
    fn judge(&self) {
        let error = self.fleet.connection_error().expect("it was refused");
        assert_eq!(error.kind(), ErrorKind::Authentication);
        assert!(error.to_string().contains(self.why), "{error}");
        let pauses = self.dials.pauses();
        for (pause, seconds) in pauses.iter().zip([1, 2, 4, 8]) {
            let plain = Duration::from_secs(seconds);
            // Plus what an attempt takes, on a machine that also runs the broker.
            let range = plain.mul_f64(0.8)..plain.mul_f64(1.2) + Duration::from_secs(3);
            assert!(range.contains(pause), "{}: {pauses:?}", self.why);
        }
    }
}

/// TCP, and when it was connected.
#[derive(Default, Debug)]
struct Dials(Arc<Mutex<Vec<Instant>>>);

impl Dials {
    fn count(&self) -> usize {
        self.0.lock().expect("no panic while noting").len()
    }

    fn pauses(&self) -> Vec<Duration> {
        let at = self.0.lock().expect("no panic while noting");
        at.windows(2).map(|two| two[1] - two[0]).collect()
    }
}

impl Transport for Dials {
    fn resolve(&self, host: String, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        Tcp::default().resolve(host, port)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "how long another process is left alone is told by the real clock"
    )]
    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (dial, at) = (Tcp::default().dial(address), Arc::clone(&self.0));
        Box::pin(async move {
            let stream = dial.await?;
            at.lock()
                .expect("no panic while noting")
                .push(Instant::now());
            Ok(stream)
        })
    }
}

/// Dials that show four pauses.
const DIALS: usize = 5;
