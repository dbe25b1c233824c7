//! One client can lose a broker while the cluster stays healthy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use nearside::cli::kafka::{Admin, Cluster, Fault};

use crate::lab::{Lab, Outcome, trials};

pub(crate) fn trials(lab: &Arc<Lab>) -> Vec<Trial> {
    trials![lab;
        a_client_behind_the_proxies_is_led_to_proxies_only,
        a_refusing_proxy_cuts_off_its_clients_alone,
        one_client_is_cut_off_and_the_other_is_not,
        vanishing_packets_silence_the_clients_of_one_proxy_alone,
    ]
}

fn a_client_behind_the_proxies_is_led_to_proxies_only(cluster: &mut Cluster) -> Outcome {
    let mut client = Admin::connect(cluster.proxy(1)?.address())?;
    let led_to: BTreeMap<i32, u16> = client
        .brokers()?
        .into_iter()
        .map(|broker| (broker.id, broker.port))
        .collect();
    let mut proxies = BTreeMap::new();
    for id in cluster.racks().into_keys() {
        proxies.insert(id, cluster.proxy(id)?.address().port());
    }
    assert_eq!(led_to, proxies);
    Ok(())
}

fn a_refusing_proxy_cuts_off_its_clients_alone(cluster: &mut Cluster) -> Outcome {
    let proxy = cluster.proxy(2)?;
    let mut cut_off = Admin::connect(proxy.address())?;
    let mut beside = Admin::connect(cluster.proxy(3)?.address())?;
    let mut direct = cluster.connect(2)?;
    assert_eq!(cut_off.brokers()?.len(), 3);
    proxy.set(Fault::Refuse);
    assert!(cut_off.brokers().is_err());
    assert!(Admin::connect(proxy.address()).is_err());
    assert_eq!(beside.brokers()?.len(), 3);
    assert_eq!(direct.brokers()?.len(), 3);
    proxy.set(Fault::None);
    assert_eq!(Admin::connect(proxy.address())?.brokers()?.len(), 3);
    Ok(())
}

fn one_client_is_cut_off_and_the_other_is_not(cluster: &mut Cluster) -> Outcome {
    let mut first = Admin::connect(cluster.proxy_of(0, 2)?.address())?;
    let mut second = Admin::connect(cluster.proxy_of(1, 2)?.address())?;
    first.set_answer_timeout(Duration::from_millis(500))?;
    cluster.proxy_of(0, 2)?.set(Fault::Vanish);
    assert!(first.brokers().is_err());
    assert!(Admin::connect(cluster.proxy_of(0, 2)?.address()).is_err());
    assert_eq!(second.brokers()?.len(), 3);
    assert_eq!(
        Admin::connect(cluster.proxy_of(1, 2)?.address())?
            .brokers()?
            .len(),
        3
    );
    Ok(())
}

fn vanishing_packets_silence_the_clients_of_one_proxy_alone(cluster: &mut Cluster) -> Outcome {
    let proxy = cluster.proxy(1)?;
    let mut silent = Admin::connect(proxy.address())?;
    silent.brokers()?;
    silent.set_answer_timeout(Duration::from_millis(500))?;
    proxy.set(Fault::Vanish);
    assert!(silent.brokers().is_err());
    assert_eq!(cluster.connect(1)?.brokers()?.len(), 3);
    Ok(())
}
