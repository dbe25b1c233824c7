//! Invariants of replica routing (routing.md 19).

mod flow;
mod requests;
mod step;

pub use flow::{Flow, Supply};
pub use requests::Requests;
pub use step::Step;

use crate::ids::{
    BrokerId, Moment, Offset, PartitionIndex, Rack, RouteGeneration, TopicName, TopicPartition,
};
use crate::offsets::resolve::LeaderView;
use crate::routing::{Demand, IsrPolicy, Lane, Role, Route, State};
use crate::wire::Request;

/// I4: a state reads on its own lane only; `Forced` never carries our rack, the others always do.
pub fn lane_fits_state(state: &State, lane: Lane) -> bool {
    match (state, lane) {
        (State::Leader | State::Follower { .. }, Lane::Rack)
        | (State::Forced { .. }, Lane::NoRack | Lane::V10) => true,
        (State::Leader | State::Follower { .. }, Lane::NoRack | Lane::V10)
        | (State::Forced { .. }, Lane::Rack)
        | (State::Parked, _) => false,
    }
}

/// I5: under `require` nobody but the leader is read outside the ISR view.
pub fn stays_in_isr(route: &Route, demand: &Demand) -> bool {
    match route.settings().isr {
        IsrPolicy::Advise => true,
        IsrPolicy::Require => route.in_isr_view(demand.stamp.broker),
    }
}

/// I6: a broker that cools for the partition is not asked.
pub fn avoids_cooling(route: &Route, demand: &Demand, now: Moment) -> bool {
    !route.is_cooling(demand.stamp.broker, now)
}

/// I12: an epoch that is known is sent.
pub fn sends_known_epochs(route: &Route, demand: &Demand) -> bool {
    demand.stamp.epoch == route.leadership().epoch
}

/// The stamp says what is true when the request is made.
pub fn stamp_is_current(route: &Route, demand: &Demand) -> bool {
    let stamp = demand.stamp;
    let role = match route.leadership().leader == Some(stamp.broker) {
        true => Role::Leader,
        false => Role::Follower,
    };
    (stamp.position, stamp.route, stamp.offset, stamp.role)
        == (
            route.position_generation(),
            route.generation(),
            route.fetch_end(),
            role,
        )
}

/// I4 to I6, I12 and the stamp, of the demand that stands after a call.
pub fn demand_is_lawful(route: &Route, now: Moment) -> bool {
    route.standing_demand().is_none_or(|demand| {
        lane_fits_state(route.state(), demand.stamp.lane)
            && route.served() == Some((demand.stamp.broker, demand.stamp.lane))
            && stays_in_isr(route, demand)
            && avoids_cooling(route, demand, now)
            && sends_known_epochs(route, demand)
            && stamp_is_current(route, demand)
    })
}

/// I13: within a position generation delivered offsets strictly increase, so nothing is delivered
/// twice.
pub fn delivery_advances(last: Option<Offset>, next: Offset) -> bool {
    last.is_none_or(|last| next > last)
}

/// I11: offsets and epochs are asked of leaders, as far as `view` knows them.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "two requests are for leaders only"
)]
pub fn asks_leaders_only(request: &Request, to: BrokerId, view: &dyn LeaderView) -> bool {
    let leads = |topic: &TopicName, partition: PartitionIndex| {
        let at = TopicPartition {
            topic: topic.clone(),
            partition,
        };
        view.leader(&at).is_some_and(|(leader, _)| leader == to)
    };
    match request {
        Request::ListOffsets(request) => {
            let mut rows = request.partitions.iter();
            rows.all(|row| leads(&row.topic, row.partition))
        }
        Request::OffsetForLeaderEpoch(request) => {
            let mut rows = request.partitions.iter();
            rows.all(|row| leads(&row.topic, row.partition))
        }
        _ => true,
    }
}

/// I19, and the rack of a request is ours or none.
pub fn rack_is_ours(sent: Option<&Rack>, ours: Option<&Rack>) -> bool {
    sent.is_none() || sent == ours
}

/// I18: so many partitions in one probe request.
pub fn probe_is_small(partitions: usize, batch: usize) -> bool {
    (1..=batch).contains(&partitions)
}

/// I18: within any second at most the burst that was saved up and what flowed in (routing.md 8.2).
pub fn probes_keep_the_rate(asked_in_a_second: usize, per_second: f64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a count of partitions")]
    let asked = asked_in_a_second as f64;
    asked <= 2.0 * per_second + 1.0
}

/// I15: route generations rise by one, and each is announced once.
pub fn generation_follows(last: RouteGeneration, announced: RouteGeneration) -> bool {
    announced.0 == last.0 + 1
}
