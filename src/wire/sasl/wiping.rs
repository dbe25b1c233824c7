//! Proof that secrets are wiped: what their owners hold at the very end (wire.md 11.1 S6).

use std::cell::RefCell;

use super::*;
use crate::secret::{Secret, is_wiped};

thread_local! {
    static SEEN: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Called with the bytes of an owner that is dropped.
pub(crate) fn saw(bytes: &[u8]) {
    SEEN.with_borrow_mut(|seen| seen.push(bytes.to_vec()));
}

/// How many bytes owners held that were dropped on this thread during `act`; all of them zero.
pub(crate) fn wiped_in(act: impl FnOnce()) -> Vec<usize> {
    SEEN.take();
    act();
    let seen = SEEN.take();
    assert!(seen.iter().flatten().all(|byte| *byte == 0), "{seen:?}");
    seen.iter().map(Vec::len).collect()
}

fn password() -> Credentials {
    Credentials::Password {
        username: "bob".to_owned(),
        password: Secret::new("pencil"),
    }
}

fn bearer() -> Bearer {
    let bearer = Bearer::new(Secret::new("coin")).unwrap();
    bearer.extension("key", Secret::new("value")).unwrap()
}

fn token(step: Step) -> Bytes {
    let Step::Tell(SaslStep::Token(token)) = step else {
        panic!("{step:?}");
    };
    token
}

#[test]
fn the_tokens_of_every_mechanism_are_wiped_with_their_last_holder() {
    for mechanism in Mechanism::ALL {
        let credentials = match mechanism {
            Mechanism::OAuthBearer => Credentials::Bearer(bearer()),
            Mechanism::Plain | Mechanism::ScramSha256 | Mechanism::ScramSha512 => password(),
        };
        let nonce = Nonce::new([7; 24]);
        let mut exchange = Exchange::new(mechanism, &credentials, &nonce, 4_096).unwrap();
        let first = token(exchange.step(None));
        let (held, bytes) = (first.clone(), first.len());
        assert!(wiped_in(|| drop(first)).is_empty(), "somebody holds it");
        assert_eq!(wiped_in(|| drop(held)), [bytes], "{mechanism}");
    }
}

#[test]
fn an_exchange_that_never_began_wipes_its_token() {
    let exchange = || Exchange::new(Mechanism::Plain, &password(), &Nonce::new([7; 24]), 4_096);
    assert_eq!(wiped_in(|| drop(exchange().unwrap())).len(), 1);
}

/// Whoever adds a field to one of these has to say what it is.
#[test]
fn credentials_hold_secrets_in_what_is_wiped_only() {
    match password() {
        Credentials::Password {
            username: _,
            password,
        } => is_wiped::<Secret>(&password),
        Credentials::Bearer(_) => panic!("a password"),
    }
    bearer().assert_wiped();
}
