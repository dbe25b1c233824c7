//! A producer actor without a cluster.

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::actors::broker::LinkLot;
use crate::actors::supervise::{Death, DeathReason};
use crate::cluster::Target;
use crate::config::Config;
use crate::ids::{BrokerId, Incarnation};
use crate::producer::SendToken;
use crate::wire::Class;
use crate::wire::api::init_producer_id;

/// A link that dies with what it is sent.
struct Grave;

impl Actor for Grave {
    type Context = Context<Self>;
}

impl Handler<LinkLot> for Grave {
    type Result = ();

    fn handle(&mut self, _: LinkLot, _: &mut Self::Context) {}
}

fn parts() -> ProducerParts {
    let config = Config::default();
    let (commands, _) = unbounded_channel();
    ProducerParts {
        producer: config.letter_producer_settings(),
        letters: letters::Settings::new("g", "c"),
        links: Arc::new(Links::alone(&config)),
        commands,
    }
}

fn watch() -> (
    DeathWatch<&'static str>,
    UnboundedReceiver<Death<&'static str>>,
) {
    let (deaths, reports) = unbounded_channel();
    (DeathWatch::new("producer", Incarnation(1), deaths), reports)
}

#[test]
fn a_request_whose_link_died_with_it_is_given_up_in_time() {
    System::new().block_on(async {
        tokio::time::pause();
        let (parts, mut ctx) = (parts(), Context::new());
        let broker = Target::Broker(BrokerId(1));
        let link = Grave.start().recipient();
        parts.links.directory.links.insert(broker, link);
        let timeout = parts.producer.request_timeout;
        let mut actor = ProducerActor::build(parts, watch().0, &mut ctx);
        let request = init_producer_id::Request {
            transactional_id: None,
            transaction_timeout: timeout,
            resume: None,
        };
        let asked = Asked::Identity(SendToken(1));
        actor.ask(broker, Class::Control, request.into(), asked);
        tokio::time::advance(timeout).await;
        actor.wake(&mut ctx);
        let due = actor
            .asked
            .next_deadline()
            .expect("its link may yet answer");
        tokio::time::advance(due.since(actor.now())).await;
        actor.wake(&mut ctx);
        assert_eq!(actor.asked.next_deadline(), None);
    });
}

#[test]
fn it_ends_when_its_fleet_does_although_it_holds_its_own_address() {
    System::new().block_on(async {
        let (watch, mut reports) = watch();
        let parts = parts();
        let actor = ProducerActor::create(|ctx| ProducerActor::build(parts, watch, ctx));
        actor.try_send(Mail::Stop).expect("an empty mailbox");
        let death = reports.recv().await.expect("told");
        assert_eq!(death.reason, DeathReason::Stopped);
        assert!(!actor.connected());
    });
}
