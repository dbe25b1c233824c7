//! Whom to ask (metadata.md 8, "Broker choice").

use super::input::LinkState;
use super::links::Links;
use super::output::Target;
use super::refresh::Refresh;

/// Picks one of `known`: the preferred one if it can be asked, else the best link, in turn. A
/// broker whose view has been found wanting comes last among equals: staleness is per broker.
pub(super) fn choose(known: &[Target], links: &Links, refresh: &Refresh) -> Option<Target> {
    let preferred = refresh
        .prefer
        .map(Target::Broker)
        .filter(|target| known.contains(target));
    if let Some(target) = preferred.filter(|target| rank(links.get(*target)) <= RANK_DIALABLE)
        && refresh.avoid != Some(target)
    {
        return Some(target);
    }
    let start = refresh
        .last
        .and_then(|last| known.iter().position(|target| *target == last));
    let (tail, head) = known.split_at(start.map_or(0, |start| start + 1));
    let in_turn = head.iter().chain(tail);
    in_turn
        .min_by_key(|target| {
            let avoided = refresh.avoid == Some(**target);
            // Another broker that can be dialled beats the one that just disappointed us.
            let rank = rank(links.get(**target));
            if avoided {
                rank.max(RANK_DIALABLE + 1)
            } else {
                rank
            }
        })
        .copied()
}

/// How good a link is for a question, best first.
const fn rank(state: LinkState) -> u8 {
    match state {
        LinkState::Ready => 0,
        LinkState::Connecting | LinkState::Idle => RANK_DIALABLE,
        LinkState::Throttled => 3,
        LinkState::Silent => 4,
        LinkState::Lost => 5,
        LinkState::Failed => 6,
    }
}

/// The worst rank that is still worth waiting for.
const RANK_DIALABLE: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BrokerId;

    fn broker(id: i32) -> Target {
        Target::Broker(BrokerId(id))
    }

    fn setup(states: [LinkState; 3]) -> (Vec<Target>, Links, Refresh) {
        let known = vec![broker(1), broker(2), broker(3)];
        let mut links = Links::default();
        for (target, state) in known.iter().zip(states) {
            links.set(*target, state);
        }
        (known, links, Refresh::default())
    }

    #[test]
    fn ready_brokers_are_asked_in_turn() {
        let (known, links, mut refresh) = setup([LinkState::Ready; 3]);
        let mut asked = Vec::new();
        for _ in 0..4 {
            refresh.last = choose(&known, &links, &refresh);
            asked.extend(refresh.last);
        }
        assert_eq!(asked, [broker(1), broker(2), broker(3), broker(1)]);
    }

    #[test]
    fn a_ready_broker_beats_a_muted_or_dead_one() {
        let (known, links, mut refresh) =
            setup([LinkState::Throttled, LinkState::Failed, LinkState::Ready]);
        refresh.last = Some(broker(3));
        assert_eq!(choose(&known, &links, &refresh), Some(broker(3)));
    }

    #[test]
    fn whoever_disappointed_us_comes_after_one_not_yet_dialled() {
        let (known, links, mut refresh) =
            setup([LinkState::Ready, LinkState::Idle, LinkState::Failed]);
        refresh.avoid = Some(broker(1));
        assert_eq!(choose(&known, &links, &refresh), Some(broker(2)));
    }

    #[test]
    fn the_leader_is_asked_first_when_its_view_matters() {
        let (known, mut links, mut refresh) = setup([LinkState::Ready; 3]);
        refresh.prefer = Some(BrokerId(3));
        assert_eq!(choose(&known, &links, &refresh), Some(broker(3)));
        links.set(broker(3), LinkState::Failed);
        assert_eq!(choose(&known, &links, &refresh), Some(broker(1)));
    }
}
