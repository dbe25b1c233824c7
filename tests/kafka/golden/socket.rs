//! A socket that asks at exactly the version it is told, and keeps the answer as it came.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey as Wire, RequestHeader};
use kafka_protocol::protocol::{Encodable, StrBytes};
use libtest_mimic::Failed;
use nearside::cli::kafka::Cluster;
use nearside::wire::{ApiKey, Request, Response};

pub(super) struct Socket {
    stream: TcpStream,
    correlation: i32,
}

impl Socket {
    pub(super) fn to(cluster: &Cluster, broker: i32) -> Result<Self, Failed> {
        let stream = TcpStream::connect(cluster.address(broker)?)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self {
            stream,
            correlation: 0,
        })
    }

    /// The whole frame of the answer, its length included.
    pub(super) fn ask(&mut self, version: i16, request: &Request) -> Result<Vec<u8>, Failed> {
        let api = request.api();
        self.correlation += 1;
        let header = RequestHeader::default()
            .with_request_api_key(api.code())
            .with_request_api_version(version)
            .with_correlation_id(self.correlation)
            .with_client_id(Some(StrBytes::from_static_str("golden")));
        let mut out = BytesMut::new();
        header.encode(&mut out, wire(api).request_header_version(version))?;
        request.encode(version, &mut out)?;
        self.stream
            .write_all(&u32::try_from(out.len())?.to_be_bytes())?;
        self.stream.write_all(&out)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = length.to_vec();
        frame.resize(4 + usize::try_from(u32::from_be_bytes(length))?, 0);
        self.stream
            .read_exact(frame.get_mut(4..).ok_or("empty frame")?)?;
        Ok(frame)
    }

    pub(super) fn decode(
        &self,
        api: ApiKey,
        version: i16,
        frame: &[u8],
    ) -> Result<Response, Failed> {
        let tagged = wire(api).response_header_version(version) > 0;
        let body = frame.get(if tagged { 9 } else { 8 }..).ok_or("no body")?;
        Ok(Response::decode(api, version, &Bytes::copy_from_slice(body))?.0)
    }
}

fn wire(api: ApiKey) -> Wire {
    Wire::try_from(api.code()).expect("the library knows our APIs")
}
