//! The smallest consumer: a handler that prints what it gets.
//!
//! `cargo run --example hello_consumer` reads an embedded cluster that it starts itself and fills
//! with a few records; `cargo run --example hello_consumer -- kafka-1:9092 orders` reads a topic of
//! a real one until Ctrl-C.
#![expect(clippy::print_stdout, reason = "an example talks to its reader")]

use nearside::embedded::listener::Serving;
use nearside::embedded::{Record, Settings};
use nearside::ids::TopicPartition;
use nearside::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (_embedded, bootstrap, topic) = match (arguments.next(), arguments.next()) {
        (Some(bootstrap), Some(topic)) => (None, bootstrap, topic),
        _ => {
            let cluster = greetings().await?;
            let bootstrap = cluster.handle().bootstrap();
            (Some(cluster), bootstrap, "greetings".to_owned())
        }
    };

    let print = handler_fn(|message: Message<Raw>, _: Context| async move {
        let text = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
        println!("{} {} {text}", message.partition(), message.offset());
        if text == "goodbye" {
            return Ok(Outcome::stop("said goodbye"));
        }
        Ok(Outcome::Done)
    });
    let fleet = Fleet::builder("hello")
        .bootstrap(&bootstrap)
        .property("auto.offset.reset", "earliest")
        .subscribe(Subscription::topics([topic]).handler(print))
        .start()
        .await?;
    let stopped = fleet.run_until_signal().await;
    println!("stopped: {}", stopped.reason);
    Ok(())
}

/// A cluster with one topic and three records, served on free ports of 127.0.0.1.
async fn greetings() -> Result<Serving, Box<dyn std::error::Error>> {
    let cluster = Serving::listen(Settings::default().on_loopback(None)).await?;
    cluster.handle().with(|cluster| {
        cluster.create_topic("greetings", 1, 3)?;
        let records = ["hello", "how are you", "goodbye"].map(Record::of);
        cluster.produce(&TopicPartition::new("greetings", 0), &records)
    })?;
    Ok(cluster)
}
