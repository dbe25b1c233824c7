//! The listener in virtual time and on sockets.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;
use crate::embedded::Link;

/// Asks for all topics and returns the answer.
async fn metadata<S>(stream: &mut S) -> std::io::Result<MetadataResponse>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut body = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(3)
        .with_request_api_version(9)
        .encode(&mut body, 2)
        .unwrap();
    MetadataRequest::default()
        .with_topics(None)
        .encode(&mut body, 9)
        .unwrap();
    let mut frame = BytesMut::new();
    frame.put_u32(u32::try_from(body.len()).unwrap());
    frame.put_slice(&body);
    stream.write_all(&frame).await?;
    let length = stream.read_u32().await?;
    let mut answer = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut answer).await?;
    let mut answer = Bytes::from(answer);
    ResponseHeader::decode(&mut answer, 1).unwrap();
    Ok(MetadataResponse::decode(&mut answer, 9).unwrap())
}

fn memory() -> Serving {
    let mut cluster = Cluster::new(Settings::default());
    cluster.create_topic("t", 2, 3).unwrap();
    Serving::in_memory(cluster)
}

#[tokio::test]
async fn a_broker_answers_over_tcp_and_advertises_where_it_listens() {
    let serving = Serving::listen(Settings::default().on_loopback(None))
        .await
        .unwrap();
    let handle = serving.handle();
    handle
        .with(|cluster| cluster.create_topic("t", 2, 3))
        .unwrap();
    let (host, port) = handle.addresses().pop().unwrap();
    let mut stream = TcpStream::connect((host, port)).await.unwrap();
    let response = metadata(&mut stream).await.unwrap();
    assert_eq!(response.topics[0].partitions.len(), 2);
    let advertised: Vec<u16> = handle
        .addresses()
        .into_iter()
        .map(|(_, port)| port)
        .collect();
    let answered = response
        .brokers
        .iter()
        .map(|broker| u16::try_from(broker.port).unwrap());
    assert_eq!(answered.collect::<Vec<_>>(), advertised);
}

#[tokio::test]
async fn a_killed_broker_closes_refuses_and_comes_back_at_its_port() {
    let serving = Serving::listen(Settings::default().on_loopback(None))
        .await
        .unwrap();
    let handle = serving.handle();
    let (host, port) = handle.addresses().remove(0);
    let mut stream = TcpStream::connect((host.as_str(), port)).await.unwrap();
    metadata(&mut stream).await.unwrap();
    handle.with(|cluster| cluster.kill(BrokerId(1)));
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    while TcpStream::connect((host.as_str(), port)).await.is_ok() {
        tokio::task::yield_now().await;
    }
    handle.with(|cluster| cluster.revive(BrokerId(1)));
    let mut again = loop {
        match TcpStream::connect((host.as_str(), port)).await {
            Ok(stream) => break stream,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    metadata(&mut again).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dialed_pipe_speaks_to_the_broker_of_that_address() {
    let serving = memory();
    let mut stream = serving
        .handle()
        .dial("broker-2.embedded", 9092)
        .await
        .unwrap();
    assert_eq!(metadata(&mut stream).await.unwrap().brokers.len(), 3);
    let nobody = serving
        .handle()
        .dial("broker-9.embedded", 9092)
        .await
        .unwrap_err();
    assert_eq!(nobody.kind(), IoErrorKind::ConnectionRefused);
}

#[tokio::test(start_paused = true)]
async fn a_slow_broker_takes_its_time_on_the_paused_clock() {
    let serving = memory();
    let handle = serving.handle();
    handle.with(|cluster| cluster.set_answer_delay(BrokerId(1), Duration::from_secs(20)));
    let mut stream = handle.dial("broker-1.embedded", 9092).await.unwrap();
    let before = clock();
    metadata(&mut stream).await.unwrap();
    let took = before.elapsed();
    assert!((20..21).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn dialing_over_a_silent_link_hangs_until_it_opens() {
    let serving = memory();
    let handle = serving.handle();
    handle.with(|cluster| cluster.set_link(BrokerId(1), Link::Silent));
    let mut dial = std::pin::pin!(handle.dial("broker-1.embedded", 9092));
    assert!(
        timeout(Duration::from_secs(60), dial.as_mut())
            .await
            .is_err()
    );
    handle.with(|cluster| cluster.set_link(BrokerId(1), Link::Open));
    metadata(&mut dial.await.unwrap()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropping_the_server_closes_its_connections() {
    let serving = memory();
    let mut stream = serving
        .handle()
        .dial("broker-1.embedded", 9092)
        .await
        .unwrap();
    metadata(&mut stream).await.unwrap();
    let handle = serving.handle().clone();
    drop(serving);
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    let mut late = handle.dial("broker-1.embedded", 9092).await.unwrap();
    assert!(metadata(&mut late).await.is_err(), "nobody serves it");
}
