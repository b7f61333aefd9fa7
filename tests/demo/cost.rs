//! What the operator asked of the API server, from the audit log: a timeline of one act, and the sums of all.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;

use crate::playground::{OPERATOR, Playground};
use crate::support::{Mark, Request, Requests};
use crate::terminal::{Style, Terminal, columns, duration, wrap};

/// One act of the demo, and what came of it.
pub struct Act {
    title: String,
    begin: Mark,
    /// Requests without watches, once it has ended.
    requests: Requests,
}

/// When something happened, as the API server's clock has it.
pub fn moment(request: &Request) -> Option<Timestamp> {
    request.received.parse().ok()
}

// === impl Act ===

impl Act {
    /// # Errors
    /// The audit log cannot be read.
    pub fn begin(play: &Playground, title: &str) -> Result<Self> {
        let begin = play.control_plane().audit().mark()?;
        Ok(Act {
            title: title.to_owned(),
            begin,
            requests: Requests::default(),
        })
    }

    /// Every request since the beginning, whoever made it.
    ///
    /// # Errors
    /// The audit log cannot be read.
    pub fn all(&self, play: &Playground) -> Result<Requests> {
        play.control_plane().audit().since(self.begin)
    }

    /// Ends the act when the operator has been quiet for a moment: an event comes after what it tells about.
    ///
    /// # Errors
    /// The audit log cannot be read, the operator ended, or the demo was told to end.
    pub fn end(&mut self, play: &mut Playground) -> Result<()> {
        self.requests = self.own(play)?;
        for _ in 0..20 {
            play.check()?;
            play.stop().sleep(Duration::from_millis(500))?;
            let requests = self.own(play)?;
            let quiet = requests.len() == self.requests.len();
            self.requests = requests;
            if quiet {
                break;
            }
        }
        Ok(())
    }

    fn own(&self, play: &Playground) -> Result<Requests> {
        Ok(self.all(play)?.by_user(OPERATOR).without_idling())
    }

    /// The operator's requests of this act, without watches.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Draws the operator's writes, with the time that had passed since `start`.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn timeline(&self, terminal: &Terminal, start: Timestamp) -> Result<()> {
        for request in self.requests.iter().filter(|request| request.is_write()) {
            let Some(moment) = moment(request) else { continue };
            let after = Duration::try_from(moment.duration_since(start)).unwrap_or_default();
            let after = format!("{:>8}", format!("+{}", duration(after)));
            let failed = if request.status < 400 {
                String::new()
            } else {
                format!(" ({})", request.status)
            };
            let first = format!("  {}  ", terminal.paint(Style::Dim, after));
            let text = format!("{}{failed}", words(request));
            let lines = wrap(&text, &first, &" ".repeat(columns(&first)), terminal.width());
            lines.iter().try_for_each(|line| terminal.line(line))?;
        }
        Ok(())
    }

    /// Title, reads and writes: a row of the table of costs.
    pub fn row(&self) -> Vec<String> {
        let writes = self.requests.clone().writes().len();
        vec![
            (self.requests.len() - writes).to_string(),
            writes.to_string(),
            self.title.clone(),
        ]
    }
}

/// A write in words.
fn words(request: &Request) -> String {
    let Request {
        verb,
        resource,
        subresource,
        name,
        ..
    } = request;
    match (verb.as_str(), resource.as_str(), subresource.as_str()) {
        (_, "events", _) => "tells about it in an Event".to_owned(),
        ("patch", _, "status") => format!("status of {resource}/{name}"),
        ("patch", "memcacheds", _) => format!("finalizer and ApplySet marks of {resource}/{name}"),
        ("patch", ..) => format!("applies {resource}/{name}"),
        ("delete", ..) => format!("deletes {resource}/{name}"),
        _ => format!("{verb} {resource}/{name}"),
    }
}
