//! The membership machine of the classic protocol (runtime.md 5.1; KIP-62, 345, 394, 429).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::Cause;
use super::finder::Finder;
use super::input::{Event, Input, Output, To, Token};
use super::lead::{Baseline, Roster};
use super::queue::{Notice, RebalanceQueue};
use super::settings::Settings;
use super::standing::{Identity, Standing};
use super::view::TopicView;
use crate::assign::{Assignor, RebalanceProtocol};
use crate::ids::{AssignmentEpoch, Draw, Generation, MemberId, Moment, TopicName, TopicPartition};
use crate::timers::DeadlineTable;
use crate::wire::Request;

/// One member of one classic group. See the [module page](super) for what its host does.
#[derive(Debug)]
pub struct ClassicMember {
    pub(super) settings: Settings,
    pub(super) phase: Phase,
    pub(super) topics: BTreeSet<TopicName>,
    pub(super) member: Option<MemberId>,
    pub(super) generation: Option<Generation>,
    /// The generation whose assignment we hold, and what it gave: the claim of the next join.
    pub(super) held: Option<(Generation, BTreeSet<TopicPartition>)>,
    /// What the last JoinGroup told: topics and claims.
    pub(super) told: (BTreeSet<TopicName>, BTreeSet<TopicPartition>),
    pub(super) finder: Finder,
    pub(super) queue: RebalanceQueue,
    pub(super) timers: DeadlineTable<TIMERS>,
    pub(super) asked: BTreeMap<Token, Asked>,
    /// Last sign of life from the coordinator; `None` while nothing of ours can expire.
    pub(super) alive_at: Option<Moment>,
    pub(super) missed: u32,
    pub(super) baseline: Option<Baseline>,
    pub(super) failures: Failures,
    /// Set once a stop was asked for: what the LeaveGroup will say.
    pub(super) leave_reason: Option<String>,
    last_token: u64,
    starts_open: bool,
    standing: Standing,
    outputs: VecDeque<Output>,
}

/// Where the membership stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Idle,
    /// About to join: the coordinator is looked for, or a delay runs.
    Waiting,
    Joining(Token),
    /// Leading a round: topics are looked up, or the assignment is computed.
    Leading(Round, Option<Roster>),
    Syncing(Round, Token),
    Stable,
    /// Eager: everything is given up before the join.
    Draining,
    /// Everything is lost; joins again when it is gone.
    Losing,
    Stopping,
    Leaving(Token),
    Ended,
}

/// A rebalance we joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Round {
    pub(super) generation: Generation,
    pub(super) assignor: Assignor,
    pub(super) leader: bool,
}

/// A request that is out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) what: What,
    pub(super) generation: Option<Generation>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Find,
    Join,
    Sync,
    Heartbeat,
    Leave,
}

/// Failures in a row, of joins and look-ups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Failures {
    pub(super) count: u32,
    pub(super) unexpected_since: Option<Moment>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    Join,
    Find,
    Heartbeat,
    Topics,
    Late,
    Session,
}

/// What one call sees.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) view: &'a dyn TopicView,
    pub(super) draw: Draw,
    pub(super) now: Moment,
}

impl ClassicMember {
    /// A member that has not joined.
    pub fn new(settings: Settings) -> Self {
        Self {
            queue: RebalanceQueue::new(settings.revoke_budget),
            settings,
            phase: Phase::Idle,
            topics: BTreeSet::new(),
            member: None,
            generation: None,
            held: None,
            told: (BTreeSet::new(), BTreeSet::new()),
            finder: Finder::default(),
            timers: DeadlineTable::new(),
            asked: BTreeMap::new(),
            alive_at: None,
            missed: 0,
            baseline: None,
            failures: Failures::default(),
            leave_reason: None,
            last_token: 0,
            starts_open: true,
            standing: Standing::Outside,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. Drain [`poll_output`](Self::poll_output) until `None` afterwards.
    pub fn handle(&mut self, input: Input, view: &dyn TopicView, draw: Draw, now: Moment) {
        let facts = Facts { view, draw, now };
        match input {
            Input::Start(topics) => self.start(topics, facts),
            Input::Subscribe(topics) => self.subscribe(topics, facts),
            Input::MetadataChanged => self.on_metadata(facts),
            Input::Answer { token, result } => self.on_answer(token, result, facts),
            Input::Led(led) => self.on_led(led, facts),
            Input::StepDone(id) => self.queue.done(id, now),
            Input::CoordinatorMoved => self.forget_coordinator(),
            Input::CoordinatorLost => self.lose_coordinator(facts),
            Input::Refused { generation, error } => self.on_refused(generation, error, facts),
            Input::Stop { until, reason } => self.stop(until, reason, facts),
            Input::Tick => self.on_tick(facts),
        }
        self.settle(facts);
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.timers
            .next()
            .into_iter()
            .chain(self.queue.next_deadline())
            .min()
    }

    /// The generation we are in, if we are in one.
    pub fn generation(&self) -> Option<Generation> {
        self.generation
    }

    /// Our member id, once the coordinator gave one.
    pub fn member(&self) -> Option<&MemberId> {
        self.member.as_ref()
    }

    /// What we own, including what is being given up.
    pub fn owned(&self) -> &BTreeMap<TopicPartition, AssignmentEpoch> {
        self.queue.owned()
    }

    /// Whether we are in a generation and hold its assignment, with nothing left to start or give
    /// up.
    pub fn is_settled(&self) -> bool {
        self.phase == Phase::Stable && !self.queue.is_busy()
    }

    /// The last answered heartbeat, join or sync.
    pub fn alive_at(&self) -> Option<Moment> {
        self.alive_at
    }

    /// What may be said in the group's name, as last told.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Whether partitions may stay at work through a rebalance: all our assignors must allow it
    /// (KIP-429).
    pub(super) fn is_cooperative(&self) -> bool {
        let mut assignors = self.settings.assignors.iter();
        assignors.all(|assignor| assignor.protocol() == RebalanceProtocol::Cooperative)
    }

    fn start(&mut self, topics: BTreeSet<TopicName>, facts: Facts<'_>) {
        if self.phase != Phase::Idle {
            return;
        }
        self.topics = topics;
        let jitter = self.settings.join_jitter.mul_f64(facts.draw.unit());
        self.prepare_join(Cause::Start, jitter, facts);
    }

    fn stop(&mut self, until: Moment, reason: String, facts: Facts<'_>) {
        self.leave_reason = Some(reason);
        let budget = until.since(facts.now);
        match self.phase {
            Phase::Ended => self.push(Output::Left),
            Phase::Leaving(_) => {}
            // The coordinator may be in the next generation already: only who ends the round with
            // it can commit in it.
            Phase::Joining(_) | Phase::Leading(..) | Phase::Syncing(..) => {
                self.queue.revoke_all(budget, facts.now);
                // The rebalance that follows gives out what is not known yet. No such thing follows
                // a static member.
                if self.says_good_bye() {
                    self.lead_on(facts);
                }
            }
            Phase::Idle
            | Phase::Waiting
            | Phase::Stable
            | Phase::Draining
            | Phase::Losing
            | Phase::Stopping => {
                self.phase = Phase::Stopping;
                self.queue.revoke_all(budget, facts.now);
            }
        }
    }

    fn on_tick(&mut self, facts: Facts<'_>) {
        self.queue.tick(facts.now);
        while let Some(index) = self.timers.expire(facts.now) {
            match Timer::ALL.get(index) {
                // What a passed delay held back is started by `settle`.
                Some(Timer::Join | Timer::Find) | None => {}
                Some(Timer::Heartbeat) => self.heartbeat(facts),
                Some(Timer::Topics) => self.lead_on(facts),
                Some(Timer::Late) => self.open_starts(false),
                Some(Timer::Session) => self.expire_session(facts),
            }
        }
    }

    /// Does what the new situation allows, and tells what changed.
    fn settle(&mut self, facts: Facts<'_>) {
        while let Some(notice) = self.queue.poll() {
            match notice {
                Notice::Step(step) => self.push(Output::Step(step)),
                Notice::Released if self.phase == Phase::Stable => {
                    self.prepare_join(Cause::Released, Duration::ZERO, facts);
                }
                Notice::Released | Notice::Reached => {}
                Notice::Empty => self.on_empty(facts),
                Notice::Overrun(late) => self.tell(Event::DrainOverrun(late)),
            }
        }
        self.look_for_coordinator();
        self.try_join(facts);
        self.tell_standing();
    }

    fn on_empty(&mut self, facts: Facts<'_>) {
        match self.phase {
            Phase::Leaving(_) | Phase::Ended => {}
            Phase::Draining | Phase::Losing if !self.is_stopping() => self.phase = Phase::Waiting,
            Phase::Idle
            | Phase::Waiting
            | Phase::Joining(_)
            | Phase::Leading(..)
            | Phase::Syncing(..)
            | Phase::Stable
            | Phase::Draining
            | Phase::Losing
            | Phase::Stopping => {
                if self.is_stopping() {
                    self.leave(facts);
                }
            }
        }
    }

    /// Whether everything is given up in order to leave.
    pub(super) const fn is_stopping(&self) -> bool {
        self.leave_reason.is_some()
    }

    fn tell_standing(&mut self) {
        let standing = self.current_standing();
        if standing != self.standing {
            self.standing = standing.clone();
            self.push(Output::Standing(standing));
        }
    }

    fn current_standing(&self) -> Standing {
        let (Some(member), Some(generation)) = (&self.member, self.generation) else {
            return Standing::Outside;
        };
        let identity = Identity {
            member: member.clone(),
            generation,
            instance: self.settings.instance.clone(),
        };
        match self.phase {
            Phase::Idle | Phase::Losing | Phase::Leaving(_) | Phase::Ended => Standing::Outside,
            Phase::Waiting | Phase::Joining(_) => Standing::Joining(identity),
            Phase::Leading(..) | Phase::Syncing(..) => Standing::Syncing,
            Phase::Stable | Phase::Draining | Phase::Stopping if self.is_blocked() => {
                Standing::Joining(identity)
            }
            Phase::Stable | Phase::Draining | Phase::Stopping => Standing::Stable(identity),
        }
    }

    /// Whether a JoinGroup or SyncGroup occupies the coordinator connection.
    pub(super) fn is_blocked(&self) -> bool {
        self.asked
            .values()
            .any(|asked| matches!(asked.what, What::Join | What::Sync))
    }

    pub(super) fn open_starts(&mut self, open: bool) {
        if self.starts_open != open {
            self.starts_open = open;
            self.push(Output::Starts(open));
        }
    }

    pub(super) fn send(
        &mut self,
        to: To,
        what: What,
        request: Request,
        timeout: Duration,
    ) -> Token {
        self.last_token += 1;
        let token = Token(self.last_token);
        self.asked.insert(
            token,
            Asked {
                what,
                generation: self.generation,
            },
        );
        self.push(Output::Send {
            to,
            request,
            token,
            timeout,
        });
        token
    }

    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.push(Output::Event(event));
    }

    pub(super) fn set_timer(&mut self, timer: Timer, due: Moment) {
        self.timers.set(timer.index(), due);
    }

    pub(super) fn stop_timers(&mut self, timers: &[Timer]) {
        for timer in timers {
            self.timers.clear(timer.index());
        }
    }

    pub(super) fn is_waiting_for(&self, timer: Timer) -> bool {
        self.timers.due(timer.index()).is_some()
    }
}

impl Timer {
    pub(super) const ALL: [Self; TIMERS] = [
        Self::Join,
        Self::Find,
        Self::Heartbeat,
        Self::Topics,
        Self::Late,
        Self::Session,
    ];

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Join => 0,
            Self::Find => 1,
            Self::Heartbeat => 2,
            Self::Topics => 3,
            Self::Late => 4,
            Self::Session => 5,
        }
    }
}

const TIMERS: usize = 6;
