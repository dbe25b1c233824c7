//! Carrying out what the machines of a process ask for.

use std::time::Duration;

use nearside::group::{self, Step, StepId, To};
use nearside::ids::{BrokerId, Offset};
use nearside::offsets::Ledger;
use nearside::offsets::commit::{self, FlushId};
use nearside::offsets::resolve;

use super::{Rig, Who};

impl Rig {
    pub(crate) fn tell_member(&mut self, node: usize, input: group::Input) {
        let draw = self.draw();
        if !self.nodes[node].alive {
            return;
        }
        self.nodes[node]
            .member
            .handle(input, &self.known, draw, self.now);
        while let Some(output) = self.nodes[node].member.poll_output() {
            self.on_member(node, output);
        }
    }

    fn on_member(&mut self, node: usize, output: group::Output) {
        match output {
            group::Output::Send {
                to,
                request,
                token,
                timeout,
            } => {
                self.nodes[node].log.push(format!("sent {}", request.api()));
                let to = self.place(node, to);
                self.transmit(node, Who::Member, to, (token, request, timeout));
            }
            group::Output::Coordinator(at) => {
                self.nodes[node].coordinator = at.as_ref().map(|at| at.broker);
                self.tell_committer(node, commit::Input::Coordinator(at.is_some()));
                self.tell_resolver(node, resolve::Input::Coordinator(at.is_some()));
            }
            group::Output::Standing(standing) => {
                self.tell_committer(node, commit::Input::Standing(standing.clone()));
                self.tell_resolver(node, resolve::Input::Standing(standing));
            }
            group::Output::Starts(open) => {
                self.nodes[node].log.push(format!("starts {open}"));
            }
            group::Output::Step(step) => self.on_step(node, step),
            group::Output::Lead(lead) => {
                let led = lead.solve();
                self.tell_member(node, group::Input::Led(led));
            }
            group::Output::WantTopics(_) => {}
            group::Output::Event(event) => self.nodes[node].log.push(format!("{event:?}")),
            group::Output::Fatal(error) => {
                self.nodes[node].log.push("fatal".into());
                self.nodes[node].fatal = Some(error);
            }
            group::Output::Left => self.nodes[node].left = true,
        }
    }

    fn place(&self, node: usize, to: To) -> (BrokerId, bool) {
        match (to, self.nodes[node].coordinator) {
            (To::Coordinator, Some(broker)) => (broker, true),
            (To::CoordinatorControl, Some(broker)) => (broker, false),
            (To::Any | To::Coordinator | To::CoordinatorControl, _) => (BrokerId(1), false),
        }
    }

    fn on_step(&mut self, node: usize, step: Step) {
        let list = |rows: &[group::Assigned]| -> Vec<i32> {
            rows.iter().map(|row| row.partition.partition.0).collect()
        };
        match step {
            Step::Assign { id, added } => {
                self.nodes[node]
                    .log
                    .push(format!("assigned {:?}", list(&added)));
                for row in added {
                    let ledger = Ledger::new(Offset(0), None);
                    self.nodes[node]
                        .ledgers
                        .insert(row.partition, (row.epoch, ledger));
                }
                self.tell_member(node, group::Input::StepDone(id));
            }
            Step::Revoke { id, partitions, .. } => {
                self.nodes[node]
                    .log
                    .push(format!("revoked {:?}", list(&partitions)));
                if self.nodes[node].slow_drains {
                    self.nodes[node].draining = Some((id, partitions));
                } else {
                    self.flush(node, id, partitions);
                }
            }
            Step::Lost { id, partitions } => {
                self.nodes[node]
                    .log
                    .push(format!("lost {:?}", list(&partitions)));
                self.nodes[node].draining = None;
                self.release(node, id, partitions);
            }
        }
    }

    pub(super) fn flush(&mut self, node: usize, step: StepId, partitions: Vec<group::Assigned>) {
        self.nodes[node].next_flush += 1;
        let id = FlushId(self.nodes[node].next_flush);
        self.nodes[node]
            .flushes
            .insert(id, (step, partitions.clone()));
        let until = self.now + Duration::from_secs(5);
        self.tell_committer(
            node,
            commit::Input::Flush {
                id,
                partitions,
                until,
            },
        );
    }

    fn release(&mut self, node: usize, step: StepId, partitions: Vec<group::Assigned>) {
        for row in &partitions {
            self.nodes[node].ledgers.remove(&row.partition);
        }
        self.tell_committer(node, commit::Input::Forget(partitions.clone()));
        self.tell_resolver(node, resolve::Input::Forget(partitions));
        self.tell_member(node, group::Input::StepDone(step));
    }

    pub(crate) fn tell_committer(&mut self, node: usize, input: commit::Input) {
        let draw = self.draw();
        self.nodes[node].committer.handle(input, draw, self.now);
        while let Some(output) = self.nodes[node].committer.poll_output() {
            match output {
                commit::Output::Send {
                    to,
                    request,
                    token,
                    timeout,
                } => {
                    self.nodes[node].log.push(format!("sent {}", request.api()));
                    let to = self.place(node, to);
                    self.transmit(node, Who::Committer, to, (token, request, timeout));
                }
                commit::Output::Committed(state) => {
                    let line = format!("committed {} {}", state.partition, state.offset);
                    self.nodes[node].log.push(line);
                }
                commit::Output::Flushed { id, .. } => {
                    let (step, partitions) = self.nodes[node].flushes.remove(&id).unwrap();
                    self.release(node, step, partitions);
                }
                commit::Output::CoordinatorMoved => {
                    self.tell_member(node, group::Input::CoordinatorMoved);
                }
                commit::Output::Refused { generation, error } => {
                    self.tell_member(node, group::Input::Refused { generation, error });
                }
                commit::Output::Event(event) => self.nodes[node].log.push(format!("{event:?}")),
            }
        }
    }

    pub(crate) fn tell_resolver(&mut self, node: usize, input: resolve::Input) {
        let draw = self.draw();
        self.nodes[node]
            .resolver
            .handle(input, &self.known, draw, self.now);
        while let Some(output) = self.nodes[node].resolver.poll_output() {
            match output {
                resolve::Output::Send {
                    to,
                    request,
                    token,
                    timeout,
                } => {
                    let to = match to {
                        resolve::To::Coordinator => self.place(node, To::Coordinator),
                        resolve::To::CoordinatorControl => self.place(node, To::CoordinatorControl),
                        resolve::To::Broker(broker) => (broker, false),
                    };
                    self.transmit(node, Who::Resolver, to, (token, request, timeout));
                }
                resolve::Output::Resolved {
                    partition, outcome, ..
                } => {
                    self.nodes[node].resolved.push((partition, outcome));
                }
                resolve::Output::Unanswered { partition, .. } => {
                    self.nodes[node].unanswered.push((partition, self.now));
                }
                resolve::Output::Refresh(partition) => {
                    self.nodes[node].log.push(format!("refresh {partition}"));
                }
                resolve::Output::CoordinatorMoved => {
                    self.tell_member(node, group::Input::CoordinatorMoved);
                }
                resolve::Output::Refused(error) => {
                    self.nodes[node]
                        .log
                        .push(format!("resolver refused {error}"));
                }
                resolve::Output::Event(event) => self.nodes[node].log.push(format!("{event:?}")),
            }
        }
    }
}
