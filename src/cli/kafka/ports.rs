//! Free TCP ports that stay free.

use std::net::{Ipv4Addr, TcpListener};

use super::KafkaError;

/// `count` distinct free ports on the loopback address.
///
/// They lie below the range from which Linux takes the local ports of outgoing connections (32768
/// and up), so that no client can sit on the port of a node that is being restarted.
pub(super) fn free(count: usize) -> Result<Vec<u16>, KafkaError> {
    let width = LAST - FIRST;
    // Parallel test processes start looking at different places.
    let offset = std::process::id().wrapping_mul(101) % u32::from(width);
    let start = FIRST + u16::try_from(offset).unwrap_or(0);
    let held: Vec<TcpListener> = (start..LAST)
        .chain(FIRST..start)
        .filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .take(count)
        .collect();
    let ports: Vec<u16> = held
        .iter()
        .filter_map(|listener| Some(listener.local_addr().ok()?.port()))
        .collect();
    if ports.len() < count {
        return Err(KafkaError::failed(format!(
            "no {count} free ports below {LAST}"
        )));
    }
    Ok(ports)
}

const FIRST: u16 = 15_000;
const LAST: u16 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_are_distinct_and_below_those_of_outgoing_connections() {
        let ports = free(15).expect("this machine has free ports");
        let distinct: std::collections::BTreeSet<u16> = ports.into_iter().collect();
        assert_eq!(distinct.len(), 15);
        assert!(distinct.iter().all(|port| (FIRST..LAST).contains(port)));
    }
}
