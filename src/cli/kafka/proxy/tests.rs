//! What a client finds at a proxied port under each fault.

use std::io::{self, Read, Write};

use super::super::wait::now;
use super::*;

/// A proxy in front of an echo server.
fn echo() -> Proxy {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in server.incoming() {
            let mut from = stream.unwrap();
            let mut to = from.try_clone().unwrap();
            thread::spawn(move || io::copy(&mut from, &mut to));
        }
    });
    Proxy::start(super::super::ports::free(1).unwrap()[0], port).unwrap()
}

fn ask(stream: &mut TcpStream) -> io::Result<[u8; 4]> {
    stream.write_all(b"ping")?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

#[test]
fn bytes_pass_while_there_is_no_fault() {
    let proxy = echo();
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(&ask(&mut stream).unwrap(), b"ping");
    assert_eq!(proxy.connections(), 1);
}

#[test]
fn a_cut_ends_open_connections_and_lets_new_ones_in() {
    let proxy = echo();
    let mut old = TcpStream::connect(proxy.address()).unwrap();
    ask(&mut old).unwrap();
    proxy.cut();
    assert!(ask(&mut old).is_err());
    let mut new = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(&ask(&mut new).unwrap(), b"ping");
}

#[test]
fn a_refusing_proxy_refuses_until_it_is_healed() {
    let proxy = echo();
    let mut old = TcpStream::connect(proxy.address()).unwrap();
    ask(&mut old).unwrap();
    proxy.set(Fault::Refuse);
    assert!(ask(&mut old).is_err());
    let refused = TcpStream::connect(proxy.address()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    proxy.set(Fault::None);
    let mut new = TcpStream::connect(proxy.address()).unwrap();
    assert_eq!(&ask(&mut new).unwrap(), b"ping");
}

#[test]
fn bytes_of_open_connections_vanish_until_the_proxy_is_healed() {
    let proxy = echo();
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    ask(&mut stream).unwrap();
    proxy.set(Fault::Vanish);
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let silent = ask(&mut stream).unwrap_err();
    assert!(matches!(
        silent.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    ));
    proxy.set(Fault::None);
    stream.set_read_timeout(None).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

#[test]
fn new_connections_get_no_answer_while_packets_vanish() {
    let proxy = echo();
    for _ in 0..2 {
        proxy.set(Fault::Vanish);
        let limit = Duration::from_millis(100);
        let unheard = TcpStream::connect_timeout(&proxy.address(), limit).unwrap_err();
        assert_eq!(unheard.kind(), io::ErrorKind::TimedOut);
        proxy.set(Fault::None);
        let mut new = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(&ask(&mut new).unwrap(), b"ping");
    }
}

#[test]
fn a_refusing_proxy_can_turn_deaf() {
    let proxy = echo();
    proxy.set(Fault::Refuse);
    proxy.set(Fault::Vanish);
    let limit = Duration::from_millis(100);
    let unheard = TcpStream::connect_timeout(&proxy.address(), limit).unwrap_err();
    assert_eq!(unheard.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn late_answers_are_late_together_and_not_one_after_the_other() {
    const DELAY: Duration = Duration::from_millis(200);
    let proxy = echo();
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    ask(&mut stream).unwrap();
    proxy.set(Fault::Late(DELAY));
    let asked = now();
    let mut answers = [0; 40];
    for part in answers.chunks_mut(4) {
        stream.write_all(b"ping").unwrap();
        part.fill(0);
    }
    stream.read_exact(&mut answers).unwrap();
    let took = now() - asked;
    assert!((DELAY..DELAY * 5).contains(&took), "{took:?}");
    assert_eq!(answers, *b"pingpingpingpingpingpingpingpingpingping");
}
