//! Carries out what the machines of producing and of dead letters decided.

use super::ProducerActor;
use crate::actors::broker::{Exchange, LinkLot};
use crate::actors::metadata::Need;
use crate::actors::partition::Lot;
use crate::actors::supervise::Command;
use crate::cluster::Target;
use crate::error::{Error, ErrorKind};
use crate::fleet::{Event, StopReason};
use crate::ids::TopicName;
use crate::producer::letters::{self, Notice};
use crate::producer::{Asked, Input, Output};
use crate::wire::{Class, ErrorCode, Outcome, Request};

impl ProducerActor {
    /// Feeds the producer and carries out what it asks for; what could not be sent ends at once.
    pub(super) fn produce(&mut self, input: Input) {
        let (draw, now) = (self.entropy.draw(), self.now());
        self.producer.handle(input, &*self.snapshot, draw, now);
        while let Some(output) = self.producer.poll_output() {
            self.carry_out(output);
        }
        if let Some(asked) = self.unsent.pop() {
            self.produce(asked.unanswered(Outcome::NotWritten));
        }
    }

    /// Feeds the machine of dead letters and carries out what it asks for.
    pub(super) fn letters(&mut self, input: letters::Input) {
        let (draw, now) = (self.entropy.draw(), self.now());
        let view = (&*self.snapshot as &_, self.producer.room());
        self.letters.handle(input, view, draw, now);
        while let Some(output) = self.letters.poll_output() {
            self.carry_out_letter(output);
        }
    }

    /// Sends every thread what became of the letters of its partitions.
    pub(super) fn tell_ends(&mut self) {
        let ends = std::mem::take(&mut self.ends);
        self.threads
            .scatter(ends, |(ticket, _)| &ticket.partition, Lot::Letters);
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send {
                broker,
                request,
                token,
            } => {
                let to = Target::Broker(broker);
                self.ask(to, Class::Produce, request.into(), Asked::Records(token));
            }
            Output::Identify { request, token } => {
                let asked = Asked::Identity(token);
                match self.somebody() {
                    Some(to) => self.ask(to, Class::Control, request.into(), asked),
                    None => self.unsent.push(asked),
                }
            }
            Output::Refresh { reason, want } => {
                self.to_metadata.post(Need::Want(reason, want));
            }
            Output::Hints(lot) => {
                self.to_metadata.post(Need::Hints(lot));
            }
            Output::Abandon { broker } => {
                if let Some(link) = self.links.directory.link(Target::Broker(broker)) {
                    // A link that is too busy to hear it ends the requests by their deadlines.
                    drop(link.try_send(LinkLot::HangUp(Class::Produce)));
                }
            }
            Output::Acked {
                token,
                partition,
                offset,
            } => {
                let result = Ok((partition, offset));
                self.letters(letters::Input::Ended { token, result });
            }
            Output::Failed { token, error } => {
                let result = Err(error);
                self.letters(letters::Input::Ended { token, result });
            }
        }
    }

    fn carry_out_letter(&mut self, output: letters::Output) {
        match output {
            letters::Output::Append { token, record } => {
                self.produce(Input::Append { token, record });
            }
            letters::Output::Tell { ticket, end } => self.ends.push((ticket, end)),
            letters::Output::Want(topic) => {
                self.to_metadata.post(Need::Topics(vec![topic]));
            }
            letters::Output::Notice(notice) => self.notice(notice),
        }
    }

    fn notice(&self, notice: Notice) {
        match notice {
            Notice::Written {
                origin,
                from,
                to,
                reason,
                partition,
                offset,
                took,
            } => {
                let reason = reason.name();
                metrics::counter!("nearside_dead_letters_total", "reason" => reason).increment(1);
                metrics::histogram!("nearside_dead_letter_write_seconds").record(took);
                self.telemetry.emit(Event::DeadLettered {
                    partition: origin,
                    from,
                    to,
                    reason,
                    letter: partition,
                    offset,
                });
            }
            Notice::Down { topic, error } => {
                self.note_topic(&topic, Some(error));
            }
            Notice::Unusable { topic, code } => self.refuse_to_start(&topic, code),
            Notice::Up { topic } => self.note_topic(&topic, None),
        }
    }

    /// Dead letters of a topic cannot be written, for this reason, or none is held up any more.
    fn note_topic(&self, topic: &TopicName, error: Option<String>) {
        match &error {
            Some(error) => tracing::error!(%topic, error, "dead letters cannot be written"),
            None => tracing::info!(%topic, "no dead letter is held up any more"),
        }
        let detail = error.map(|error| format!("topic `{topic}`: {error}"));
        self.telemetry
            .note_fault("dead_letter_down", topic.to_string(), detail);
    }

    fn refuse_to_start(&self, topic: &TopicName, code: ErrorCode) {
        let text = format!(
            "the dead letter topic `{topic}` cannot be written to: {code}; create it, or name \
             another by `dead.letter.topic`"
        );
        let kind = match code {
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => ErrorKind::Authorization,
            _ => ErrorKind::UnknownTopic,
        };
        // A fleet that ends by itself meanwhile needs no order.
        drop(self.commands.send(Command::Stop {
            reason: StopReason::Fatal(Error::new(kind, text)),
            deadline: None,
        }));
    }

    /// A broker whose control connection stands, else one that is known.
    fn somebody(&self) -> Option<Target> {
        let known = || self.snapshot.brokers().map(|one| Target::Broker(one.id));
        let ready = &self.links.directory.ready;
        known()
            .find(|target| ready.contains(target))
            .or_else(|| known().next())
    }

    pub(super) fn ask(&mut self, to: Target, class: Class, request: Request, asked: Asked) {
        self.last_token += 1;
        let token = self.last_token;
        let reply = self.me.clone();
        let exchange = Exchange {
            class,
            request,
            token,
            reply,
        };
        let link = self.links.directory.link(to);
        if link.is_some_and(|link| link.try_send(LinkLot::Exchange(exchange)).is_ok()) {
            self.asked.sent(token, asked, self.now());
            if class == Class::Produce {
                self.silence.sent(token, self.now());
            }
        } else {
            self.unsent.push(asked);
        }
    }
}
