//! Whatever is wrong: one clear line, the right code, and no hang.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::run::{cluster, run};

#[tokio::test]
async fn a_mistyped_property_names_the_nearest_one() {
    let ended = run(
        "consume -b localhost:9092 -t orders -X gruop.id=billing",
        "",
    )
    .await;
    ended.assert_failure(2, "unknown property `gruop.id`, did you mean `group.id`?");
}

#[tokio::test]
async fn a_configuration_that_does_not_parse_names_file_and_line() {
    let folder = std::env::temp_dir();
    let file = folder.join(format!(
        "nearside-command-{}.properties",
        std::process::id()
    ));
    std::fs::write(
        &file,
        "bootstrap.servers = localhost:9092\nfetch.min.bytes = many\n",
    )
    .unwrap();
    let ended = run(
        &format!("consume -t orders --config {}", file.display()),
        "",
    )
    .await;
    std::fs::remove_file(&file).unwrap();
    ended.assert_failure(2, ".properties:2: `fetch.min.bytes` is `many`");
}

#[tokio::test]
async fn values_that_contradict_each_other_are_refused_before_anything_opens() {
    let words = "consume -b localhost:9092 -t orders -g billing \
                 -X session.timeout.ms=6000 -X heartbeat.interval.ms=5000";
    let ended = run(words, "").await;
    ended.assert_failure(2, "error: `heartbeat.interval.ms` is 5000");
}

#[tokio::test]
async fn records_are_written_for_every_replica_or_not_at_all() {
    let ended = run("produce -b localhost:9092 -t orders -X acks=1", "one\n").await;
    ended.assert_failure(2, "`acks` is 1");
}

#[tokio::test]
async fn a_share_that_cannot_hold_a_request_is_refused() {
    let words = "produce -b localhost:9092 -t orders -X wire.budget.produce.share=0.003";
    let ended = run(words, "one\n").await;
    ended.assert_failure(2, "`wire.budget.produce.share` leaves 805306 bytes");
}

#[tokio::test]
async fn a_listener_of_another_protocol_is_named_with_what_to_try() {
    let cluster = cluster().await;
    let bootstrap = cluster.handle().bootstrap();
    let words = format!("consume -b {bootstrap} -t orders");
    let tls = run(&format!("{words} -X security.protocol=SSL"), "").await;
    tls.assert_failure(
        3,
        "listener does not speak TLS; try `security.protocol` PLAINTEXT",
    );
    let sasl = "-X sasl.mechanism=SCRAM-SHA-512 -X sasl.username=a -X sasl.password=b";
    let sasl = format!("{words} -X security.protocol=SASL_PLAINTEXT {sasl}");
    let ended = run(&sasl, "").await;
    let wanted = "listener does not use SASL; try `security.protocol` PLAINTEXT";
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.error.contains(wanted), "{ended:?}");
}

#[tokio::test]
async fn what_is_legal_and_hardly_meant_is_warned_of() {
    let words = "-b 127.0.0.1:1 -t orders --connect-timeout 1 \
                 -X security.protocol=SASL_PLAINTEXT -X sasl.mechanism=SCRAM-SHA-256 \
                 -X sasl.username=billing -X sasl.password=secret";
    for command in ["consume", "produce"] {
        let ended = run(&format!("{command} {words}"), "one\n").await;
        let lines: Vec<_> = ended.error.lines().collect();
        assert!(
            lines[0].starts_with("warning: `security.protocol` is SASL_PLAINTEXT"),
            "{ended:?}"
        );
        assert!(lines[1].starts_with("error: 127.0.0.1:1"), "{ended:?}");
        assert_eq!((lines.len(), ended.code), (2, Some(3)), "{ended:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_ends_with_the_connect_timeout() {
    // Port 1 needs privileges to listen at, and nobody does.
    for command in ["consume", "produce"] {
        let words = format!("{command} -b 127.0.0.1:1 -t orders --connect-timeout 1");
        run(&words, "one\n").await.assert_failure(3, "127.0.0.1:1");
    }
}

#[tokio::test]
async fn an_http_server_is_recognised_at_once() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = JoinSet::new();
    server.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 64];
            let Ok(1..) = stream.read(&mut request).await else {
                continue;
            };
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .ok();
        }
    });
    let words = format!("consume -b 127.0.0.1:{port} -t orders --connect-timeout 50");
    run(&words, "").await.assert_failure(3, "HTTP");
}

#[tokio::test]
async fn an_unknown_topic_is_given_up_after_ten_seconds() {
    let cluster = cluster().await;
    let bootstrap = cluster.handle().bootstrap();
    let words = format!("-b {bootstrap} -t ordres");
    let (consume, produce) = tokio::join!(
        async { run(&format!("consume {words}"), "").await },
        async { run(&format!("produce {words}"), "one\n").await },
    );
    consume.assert_failure(1, "ordres");
    produce.assert_failure(1, "ordres");
}

#[tokio::test]
async fn a_group_without_permission_is_refused() {
    let cluster = cluster().await;
    cluster
        .handle()
        .with(|cluster| cluster.deny_group("billing"));
    let words = format!(
        "consume -b {} -t orders -g billing",
        cluster.handle().bootstrap()
    );
    run(&words, "").await.assert_failure(4, "billing");
}

#[tokio::test]
async fn a_line_that_is_no_record_is_named() {
    let cluster = cluster().await;
    let words = format!(
        "produce -b {} -t orders --json",
        cluster.handle().bootstrap()
    );
    let ended = run(&words, "{\"value\":\"good\"}\nbad\n").await;
    ended.assert_failure(1, "line 2: not a record in JSON");
}
