//! Fleets on a real three-broker, three-rack Apache Kafka.

use libtest_mimic::Arguments;

fn main() {
    libtest_mimic::run(&Arguments::from_args(), Vec::new()).exit();
}
