//! What a data thread hands to the writer of a trace.

use super::line::{Line, Step};
use super::outcome::Outcome;
use super::row;
use crate::ids::{BrokerId, Draw, Moment};
use crate::routing::facts::{BrokerFacts, Brokers};
use crate::routing::input::Input;
use crate::routing::output::Output;
use crate::routing::route::Route;
use crate::wire::api::fetch::Aborted;

/// One input of one machine, being recorded. Holds no record bytes: a slow writer must not keep
/// fetched frames alive.
#[derive(Clone, PartialEq, Debug)]
pub struct Taken {
    route: u64,
    number: u64,
    at: Moment,
    draw: Draw,
    input: Input,
    outputs: Vec<Output>,
    after: Option<Outcome>,
    /// What the machine's thread has to say first.
    before: Vec<Line>,
}

impl Taken {
    /// Begins with the input, before the machine is handed it. `before` are lines that belong ahead
    /// of it.
    pub fn begin(route: u64, number: u64, input: &Input, (draw, at): (Draw, Moment)) -> Self {
        Self {
            route,
            number,
            at,
            draw,
            input: bare(input),
            outputs: Vec::new(),
            after: None,
            before: Vec::new(),
        }
    }

    /// Puts a line ahead of this step.
    pub fn after_line(&mut self, line: Line) {
        self.before.push(line);
    }

    /// Whether lines about brokers go ahead of it.
    pub fn tells_facts(&self) -> bool {
        self.before
            .iter()
            .any(|line| matches!(line, Line::Facts { .. }))
    }

    /// Takes note of an output.
    pub fn gave(&mut self, output: &Output) {
        let mut output = output.clone();
        if let Output::Deliver(delivery) = &mut output {
            delivery.records = row::blank(delivery.records.len());
            delivery.aborted = Aborted::default();
        }
        self.outputs.push(output);
    }

    /// Takes note of how the machine was left. Its outputs are put into words later, by
    /// [`lines`](Self::lines), on the writer's thread.
    pub fn end(&mut self, route: &Route) {
        self.after = Some(Outcome::of(route, &[]));
    }

    /// The lines of this step.
    pub fn lines(self) -> Vec<Line> {
        let mut lines = self.before;
        if let Some(after) = self.after {
            let outputs = self.outputs.iter().map(super::outputs::describe).collect();
            lines.push(Line::Step(Box::new(Step {
                route: self.route,
                number: self.number,
                at: self.at,
                draw: self.draw,
                input: self.input,
                after: Outcome { outputs, ..after },
            })));
        }
        lines
    }
}

/// The facts a thread has told the trace so far.
#[derive(Clone, Debug, Default)]
pub struct FactsSeen(Brokers);

impl FactsSeen {
    /// What `brokers` say that was not told yet. Cheap while nothing changes.
    pub fn news(&self, brokers: &Brokers) -> Vec<(BrokerId, Option<BrokerFacts>)> {
        let changed = brokers
            .iter()
            .filter(|(id, facts)| self.0.get(*id) != Some(*facts))
            .map(|(id, facts)| (id, Some(facts.clone())));
        let gone = self
            .0
            .iter()
            .filter(|(id, _)| brokers.get(*id).is_none())
            .map(|(id, _)| (id, None));
        changed.chain(gone).collect()
    }

    /// They were told.
    pub fn told(&mut self, brokers: &Brokers) {
        self.0 = brokers.clone();
    }
}

/// The input without record bytes.
fn bare(input: &Input) -> Input {
    let mut input = input.clone();
    if let Input::Row { row, .. } | Input::ProbeRow { row, .. } | Input::HedgeRow { row, .. } =
        &mut input
    {
        *row = row::bare(row);
    }
    input
}
