//! Access tokens from a file that somebody else keeps fresh (KIP-768).

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zeroize::Zeroizing;

use super::reading::{PATIENCE, Reader};
use super::tokens::{AccessToken, TokenProvider};
use super::transport::BoxFuture;
use crate::actors::clock::unix_ms;
use crate::secret::Secret;
use crate::wire::sasl::token_end;

/// Reads its file anew for every token.
#[derive(Debug)]
pub(super) struct TokenFile {
    file: PathBuf,
    reader: Reader<Result<AccessToken, String>>,
}

impl TokenFile {
    pub(super) fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            reader: Reader::new(),
        }
    }
}

impl TokenProvider for TokenFile {
    fn token(&self) -> BoxFuture<Result<AccessToken, String>> {
        let (file, reader) = (self.file.clone(), self.reader.clone());
        Box::pin(async move {
            let late = format!("`{}` cannot be read within {PATIENCE:?}", file.display());
            let token = reader.read(move || read(&file)).await;
            token.unwrap_or(Err(late))
        })
    }
}

/// The token in `file`, and how long it is good from now on. No error tells what the file holds.
fn read(file: &Path) -> Result<AccessToken, String> {
    let refused = |what: String| format!("`{}` {what}", file.display());
    // Reserved at once: a text that grows leaves copies behind that nobody wipes.
    let mut text = Zeroizing::new(String::with_capacity(TOKEN_MAX));
    File::open(file)
        .and_then(|open| open.take(TOKEN_MAX as u64).read_to_string(&mut text))
        .map_err(|error| refused(format!("cannot be read: {error}")))?;
    let token = Secret::new(text.trim());
    let end = token_end(&token).ok_or_else(|| refused("holds no JWT with an `exp`".to_owned()))?;
    let now = Duration::from_millis(u64::try_from(unix_ms()).unwrap_or(0));
    if end <= now {
        let ago = (now - end).as_secs();
        return Err(refused(format!("holds a token that ended {ago} s ago")));
    }
    AccessToken::new(token, end - now).map_err(|error| refused(error.to_string()))
}

/// Longest token that brokers take (S9), and then some.
const TOKEN_MAX: usize = 64 * 1_024 + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_holds_no_token() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error, "`/dev/zero` holds no JWT with an `exp`");
    }
}
