//! Where the demo's pictures go: drawn in place on a terminal, told as news elsewhere.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use crate::cli::demo::summary::Summary;
use crate::cli::demo::table::Picture;

/// The output of the demo.
pub(super) struct Screen<'a> {
    out: &'a mut (dyn Write + Send),
    kind: Kind,
}

enum Kind {
    /// Draws over the last picture, which had so many lines.
    Terminal { lines: usize },
    /// Prints a picture now and then, since nothing can be drawn over.
    Plain { last: Option<Duration> },
}

impl<'a> Screen<'a> {
    /// A screen on `out`, which is our standard output.
    pub(super) fn new(out: &'a mut (dyn Write + Send)) -> Self {
        let kind = if io::stdout().is_terminal() {
            Kind::Terminal { lines: 0 }
        } else {
            Kind::Plain { last: None }
        };
        Self { out, kind }
    }

    /// Shows a picture.
    pub(super) fn show(&mut self, picture: &Picture) -> io::Result<()> {
        match &mut self.kind {
            Kind::Terminal { lines } => {
                let text = picture.render();
                // Up to the first line of the last picture, then clear to the end.
                let back = if *lines > 0 {
                    format!("\x1b[{lines}F")
                } else {
                    String::new()
                };
                *lines = text.lines().count();
                write!(self.out, "{back}\x1b[J{text}")?;
            }
            Kind::Plain { last } => {
                let due = last.is_none_or(|last| picture.elapsed >= last + PLAIN_INTERVAL);
                if !due {
                    return Ok(());
                }
                *last = Some(picture.elapsed);
                writeln!(self.out, "{}", picture.render())?;
            }
        }
        self.out.flush()
    }

    /// Says one thing below the last picture.
    pub(super) fn say(&mut self, words: &str) -> io::Result<()> {
        writeln!(self.out, "\n{words}")?;
        self.out.flush()
    }

    /// Shows the summary below the last picture.
    pub(super) fn end(&mut self, summary: &Summary) -> io::Result<()> {
        writeln!(self.out, "\n{summary}")?;
        self.out.flush()
    }
}

const PLAIN_INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: Kind, seconds: &[u64]) -> String {
        let mut out = Vec::new();
        let mut screen = Screen {
            out: &mut out,
            kind,
        };
        for elapsed in seconds {
            let elapsed = Duration::from_secs(*elapsed);
            screen
                .show(&Picture {
                    elapsed,
                    ..Picture::default()
                })
                .unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_terminal_is_drawn_over() {
        let text = shown(Kind::Terminal { lines: 0 }, &[1, 2]);
        let lines = Picture::default().render().lines().count();
        assert_eq!(text.matches("nearside demo").count(), 2);
        assert_eq!(text.matches(&format!("\x1b[{lines}F")).count(), 1);
    }

    #[test]
    fn a_pipe_gets_a_picture_every_five_seconds() {
        let text = shown(Kind::Plain { last: None }, &[1, 2, 5, 6, 7]);
        assert_eq!(text.matches("nearside demo").count(), 2);
        assert!(!text.contains('\x1b'));
    }
}
