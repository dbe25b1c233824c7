//! The producer id and its epoch (InitProducerId, KIP-360).

use crate::backoff::Backoff;
use crate::ids::{Draw, Moment};
use crate::wire::ErrorCode;
use crate::wire::api::init_producer_id::{Producer as Identity, Request, Response};

use super::message::SendToken;

/// The id in use, or the quest for one.
#[derive(Debug, Default)]
pub(super) struct IdentityKeeper {
    current: Option<Identity>,
    asking: Option<SendToken>,
    failures: u32,
    retry_at: Option<Moment>,
}

impl IdentityKeeper {
    pub(super) fn current(&self) -> Option<Identity> {
        self.current
    }

    /// When to ask again after a failure.
    pub(super) fn next_deadline(&self) -> Option<Moment> {
        self.retry_at
    }

    /// The request to send if an id is lacking and none is being asked for.
    pub(super) fn ask(&mut self, token: SendToken, now: Moment) -> Option<Request> {
        if self.current.is_some() || self.asking.is_some() || self.retry_at > Some(now) {
            return None;
        }
        self.asking = Some(token);
        self.retry_at = None;
        Some(Request::default())
    }

    /// Takes the answer to request `token`.
    ///
    /// # Errors
    /// The code of a refusal that retrying does not mend.
    pub(super) fn answered(
        &mut self,
        token: SendToken,
        response: Option<Response>,
        backoff: &Backoff,
        (draw, now): (Draw, Moment),
    ) -> Result<(), ErrorCode> {
        if self.asking != Some(token) {
            return Ok(());
        }
        self.asking = None;
        let error = response.map(|response| response.error);
        self.current = response
            .and_then(|it| it.producer)
            .filter(|_| error == Some(ErrorCode::NONE));
        if self.current.is_some() {
            self.failures = 0;
            return Ok(());
        }
        self.retry_at = Some(now + backoff.delay(self.failures, draw));
        self.failures = self.failures.saturating_add(1);
        match error {
            Some(
                code @ (ErrorCode::CLUSTER_AUTHORIZATION_FAILED
                | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
            ) => Err(code),
            _ => Ok(()),
        }
    }

    /// Raises the epoch; beyond the last one a new id is needed.
    pub(super) fn bump(&mut self) {
        self.current = self.current.and_then(|identity| {
            let epoch = identity.epoch.checked_add(1)?;
            Some(Identity { epoch, ..identity })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_the_last_epoch_comes_a_new_id() {
        let last = Identity {
            id: 7,
            epoch: i16::MAX,
        };
        let mut keeper = IdentityKeeper {
            current: Some(last),
            ..IdentityKeeper::default()
        };
        keeper.bump();
        assert_eq!(keeper.current(), None);
        let request = keeper.ask(SendToken(1), Moment::ZERO).unwrap();
        assert_eq!(request.resume, None);
    }
}
