//! R42: the topic is another one, or gone.

use crate::cluster;
use crate::ids::{TopicId, TopicIncarnation};
use crate::routing::event::{Event, Reason};
use crate::routing::input::Leadership;
use crate::routing::output::{Output, Resolve};
use crate::routing::route::{Context, Gates, Route, View};
use crate::routing::state::{Position, State};

impl Route {
    /// Nothing of the old topic is comparable: neither offsets nor epochs nor what its brokers did.
    /// Leadership of the new one follows as [`Input::LeaderChanged`].
    ///
    /// [`Input::LeaderChanged`]: crate::routing::Input::LeaderChanged
    pub(in crate::routing) fn on_recreated(
        &mut self,
        incarnation: TopicIncarnation,
        id: TopicId,
        context: Context<'_>,
    ) {
        if self.position == Position::Unset || incarnation <= self.incarnation {
            return;
        }
        self.incarnation = incarnation;
        self.topic_id = Some(id);
        self.cluster = View {
            version: self.cluster.version,
            ..View::default()
        };
        self.gates = Gates {
            room: self.gates.room,
            ..Gates::open(self.gates.paused)
        };
        self.change(State::Parked, Reason::TopicRecreated, context);
        self.forget_everything();
        self.gates.anew = true;
        self.resolve(Resolve::Anew);
        self.emit(Output::Refresh(cluster::Reason::NotLeader));
    }

    /// Parked until metadata knows a leader again.
    pub(in crate::routing) fn on_gone(&mut self, context: Context<'_>) {
        if self.position == Position::Unset || self.gates.gone {
            return;
        }
        self.gates.gone = true;
        self.cluster.leadership = Leadership {
            leader: None,
            addressable: false,
            ..self.cluster.leadership
        };
        self.cluster.lost = false;
        self.change(State::Parked, Reason::TopicGone, context);
        self.emit(Output::Event(Event::TopicGone));
    }

    /// A topic that was gone has a leader again: what was asked about its position got no answer.
    pub(in crate::routing) fn on_back(&mut self) {
        if std::mem::take(&mut self.gates.gone) && self.position == Position::Resolving {
            match self.gates.refused {
                Some(_) => self.ask_for_range(),
                None if self.gates.anew => self.resolve(Resolve::Anew),
                None => self.resolve(Resolve::Start),
            }
        }
    }
}
