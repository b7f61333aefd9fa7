//! What the dashboard shows: the rows of all releases with search and pages, and one release with its time line. Every text comes from a
//! client of the API server, is not trusted, and is cut.

mod detail;
mod index;
mod query;
mod timeline;

pub use detail::{ReleaseDetail, RevisionRow};
pub use index::{MOST_RELEASES, ReleaseIndex, ReleaseKey, ReleaseRow, ReleaseState};
pub use query::{ListPage, ListQuery, MOST_ROWS, list};
pub use timeline::{Lane, WorkSpan, timeline};

#[cfg(test)]
mod tests;
