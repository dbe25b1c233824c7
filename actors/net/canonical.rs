//! Bootstrap names as the canonical ones of their addresses (KIP-235).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::transport::{Tcp, Transport};
use crate::cluster::Endpoint;
use crate::config::{Config, DnsLookup};

/// Replaces each bootstrap address by the canonical names of all addresses behind it, if
/// `client.dns.lookup` asks for that. A name that does not resolve stays as it is; an address that
/// nobody has a name for stands for itself.
pub(crate) async fn canonical_bootstrap(config: &mut Config, transport: Option<&dyn Transport>) {
    if config.connection.dns_lookup == DnsLookup::UseAllDnsIps {
        return;
    }
    let tcp = Tcp::default();
    let transport = transport.unwrap_or(&tcp);
    let patience = config.wire.dns;
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for endpoint in &config.connection.bootstrap {
        for name in behind(endpoint, transport, patience).await {
            if seen.insert((name.host.to_string(), name.port)) {
                names.push(name);
            }
        }
    }
    tracing::info!(?names, "canonical bootstrap addresses");
    config.connection.bootstrap = names;
}

async fn behind(
    endpoint: &Endpoint,
    transport: &dyn Transport,
    patience: Duration,
) -> Vec<Endpoint> {
    let resolved = transport.resolve(endpoint.host.to_string(), endpoint.port);
    let addresses = match timeout(patience, resolved).await {
        Ok(Ok(addresses)) if !addresses.is_empty() => addresses,
        Ok(_) | Err(_) => {
            tracing::warn!(?endpoint, "does not resolve and is kept as it is");
            return vec![endpoint.clone()];
        }
    };
    let mut names = Vec::new();
    for address in addresses {
        let name = name_of(address.ip(), transport, patience).await;
        names.push(Endpoint::new(name, address.port()));
    }
    names
}

async fn name_of(address: IpAddr, transport: &dyn Transport, patience: Duration) -> String {
    match timeout(patience, transport.name_of(address)).await {
        Ok(Ok(name)) if !name.is_empty() => name,
        Ok(_) | Err(_) => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;

    use super::super::transport::{BoxFuture, Stream};
    use super::*;

    /// One name with three addresses, one of which nobody has a name for.
    #[derive(Debug)]
    struct Names;

    impl Transport for Names {
        fn resolve(&self, host: String, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
            let found = match host.as_str() {
                "kafka" => Ok([1, 2, 3].map(|n| ([10, 0, 0, n], port).into()).to_vec()),
                _ => Err(io::ErrorKind::NotFound.into()),
            };
            Box::pin(std::future::ready(found))
        }

        fn dial(&self, _: SocketAddr) -> BoxFuture<io::Result<Box<dyn Stream>>> {
            Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
        }

        fn name_of(&self, address: IpAddr) -> BoxFuture<io::Result<String>> {
            let name = match address.to_string().as_str() {
                "10.0.0.1" => Ok("a.kafka".to_owned()),
                "10.0.0.2" => Ok("b.kafka".to_owned()),
                _ => Err(io::ErrorKind::NotFound.into()),
            };
            Box::pin(std::future::ready(name))
        }
    }

    async fn expanded(lookup: &str) -> Vec<String> {
        let mut config = Config::from_pairs([
            ("bootstrap.servers", "kafka:9092,b.kafka:9092,kafka:9092"),
            ("client.dns.lookup", lookup),
        ])
        .unwrap();
        canonical_bootstrap(&mut config, Some(&Names)).await;
        let bootstrap = config.connection.bootstrap.iter();
        bootstrap
            .map(|at| format!("{}:{}", at.host, at.port))
            .collect()
    }

    /// wire.md 5.4
    #[tokio::test]
    async fn bootstrap_names_become_those_of_all_their_addresses_once_each() {
        let canonical = expanded("resolve_canonical_bootstrap_servers_only").await;
        assert_eq!(canonical, ["a.kafka:9092", "b.kafka:9092", "10.0.0.3:9092"]);
        let plain = expanded("use_all_dns_ips").await;
        assert_eq!(plain[..2], ["kafka:9092", "b.kafka:9092"]);
    }

    #[tokio::test]
    async fn the_system_names_the_loopback_address() {
        let name = Tcp::default().name_of([127, 0, 0, 1].into()).await.unwrap();
        assert!(!name.is_empty());
    }
}
