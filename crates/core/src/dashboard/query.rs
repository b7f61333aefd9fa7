//! Search, filters, order and pages of the list.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Serialize;

use super::index::{ReleaseIndex, ReleaseRow, ReleaseState};

/// The most rows of a page.
pub const MOST_ROWS: usize = 200;
/// Rows of a page if the client names no number.
const ROWS: usize = 50;
/// The longest search text, in bytes.
const LONGEST_SEARCH: usize = 200;
/// The most namespaces that are offered as filters.
const MOST_NAMESPACES: usize = 500;

/// What a client wants to see of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Words in lower case, all of which a row must contain.
    pub words: Vec<String>,
    /// The kind with its group; empty: all.
    pub kind: String,
    /// Empty: all.
    pub namespace: String,
    /// Empty: all.
    pub states: Vec<ReleaseState>,
    pub order: ListOrder,
    pub offset: usize,
    pub limit: usize,
}

impl Default for ListQuery {
    fn default() -> Self {
        ListQuery {
            words: Vec::new(),
            kind: String::new(),
            namespace: String::new(),
            states: Vec::new(),
            order: ListOrder::default(),
            offset: 0,
            limit: ROWS,
        }
    }
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// The worst first.
    #[default]
    State,
    Name,
    Namespace,
    Kind,
    Chart,
    /// The newest first.
    Age,
}

/// A page of the list, with what helps to filter it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPage {
    pub items: Vec<ReleaseRow>,
    /// Number of the first row.
    pub offset: usize,
    pub limit: usize,
    /// Rows that the query selects, on all pages.
    pub matched: usize,
    /// Releases in all.
    pub total: usize,
    /// Rows of each state that the query would select without its filter of states.
    pub states: BTreeMap<&'static str, usize>,
    /// Releases of each kind.
    pub kinds: BTreeMap<String, usize>,
    /// Releases of each namespace, for the first namespaces.
    pub namespaces: BTreeMap<String, usize>,
    /// There are more releases than are kept.
    pub is_full: bool,
}

impl ListQuery {
    /// Reads the parameters of a request. Empty parameters are as if they were absent.
    ///
    /// # Errors
    /// A parameter is unknown or invalid: the message names it.
    pub fn parse<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut query = ListQuery::default();
        for (name, text) in parameters {
            if text.is_empty() {
                continue;
            }
            match name {
                "q" => {
                    let end = text.floor_char_boundary(LONGEST_SEARCH);
                    query.words = text[..end].split_whitespace().map(str::to_lowercase).collect();
                }
                "kind" => text.clone_into(&mut query.kind),
                "namespace" => text.clone_into(&mut query.namespace),
                "state" => query.states = text.split(',').map(parse_state).collect::<Result<_, _>>()?,
                "order" => query.order = parse_order(text)?,
                "offset" => query.offset = parse_number(name, text)?,
                "limit" => query.limit = parse_number(name, text)?.clamp(1, MOST_ROWS),
                _ => return Err(format!("unknown parameter {name:?}")),
            }
        }
        Ok(query)
    }

    /// True if the filters other than that of the states select a row. `buffer`: for the text of the row.
    fn selects(&self, row: &ReleaseRow, kind: &str, buffer: &mut String) -> bool {
        let summary = &row.summary;
        if !self.kind.is_empty() && self.kind != kind {
            return false;
        }
        if !self.namespace.is_empty() && self.namespace != summary.namespace {
            return false;
        }
        if self.words.is_empty() {
            return true;
        }
        buffer.clear();
        for text in [
            summary.name.as_str(),
            &summary.namespace,
            &summary.reason,
            &summary.message,
            &summary.chart,
            &summary.version,
            kind,
            row.state.as_str(),
        ] {
            // A line feed is in no word.
            buffer.push('\n');
            if text.is_ascii() {
                let start = buffer.len();
                buffer.push_str(text);
                buffer[start..].make_ascii_lowercase();
            } else {
                buffer.extend(text.chars().flat_map(char::to_lowercase));
            }
        }
        self.words.iter().all(|word| buffer.contains(word.as_str()))
    }
}

fn parse_state(text: &str) -> Result<ReleaseState, String> {
    let found = ReleaseState::ALL.into_iter().find(|state| state.as_str() == text);
    let names = || ReleaseState::ALL.map(ReleaseState::as_str).join(", ");
    found.ok_or_else(|| format!("unknown state {text:?}: use {}", names()))
}

fn parse_order(text: &str) -> Result<ListOrder, String> {
    Ok(match text {
        "state" => ListOrder::State,
        "name" => ListOrder::Name,
        "namespace" => ListOrder::Namespace,
        "kind" => ListOrder::Kind,
        "chart" => ListOrder::Chart,
        "age" => ListOrder::Age,
        _ => {
            return Err(format!(
                "unknown order {text:?}: use state, name, namespace, kind, chart or age"
            ));
        }
    })
}

fn parse_number(name: &str, text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("{name} must be a whole number, not {text:?}"))
}

/// Returns a page of the list. Past the last page it is empty.
pub fn list(index: &ReleaseIndex, query: &ListQuery) -> ListPage {
    let mut found: Vec<&ReleaseRow> = Vec::new();
    let mut states: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut namespaces: BTreeMap<&str, usize> = BTreeMap::new();
    let mut buffer = String::new();
    // Rows of a kind are next to each other.
    let mut kind = (None, String::new());
    for row in index.rows() {
        if kind.0 != Some(&row.kind) {
            kind = (Some(&row.kind), row.kind.to_string());
        }
        match kinds.get_mut(&kind.1) {
            Some(count) => *count += 1,
            None => drop(kinds.insert(kind.1.clone(), 1)),
        }
        if !row.summary.namespace.is_empty() {
            *namespaces.entry(&row.summary.namespace).or_default() += 1;
        }
        if !query.selects(row, &kind.1, &mut buffer) {
            continue;
        }
        *states.entry(row.state.as_str()).or_default() += 1;
        if query.states.is_empty() || query.states.contains(&row.state) {
            found.push(row);
        }
    }
    // Stable: rows that are equal stay in the order of their keys.
    found.sort_by(|one, other| compare(one, other, query.order));
    let items = found.iter().skip(query.offset).take(query.limit);
    ListPage {
        items: items.map(|row| (*row).clone()).collect(),
        offset: query.offset,
        limit: query.limit,
        matched: found.len(),
        total: index.len(),
        states,
        kinds,
        namespaces: namespaces
            .into_iter()
            .take(MOST_NAMESPACES)
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
        is_full: index.is_full(),
    }
}

fn compare(one: &ReleaseRow, other: &ReleaseRow, order: ListOrder) -> Ordering {
    fn place(row: &ReleaseRow) -> (&str, &str) {
        (&row.summary.namespace, &row.summary.name)
    }
    fn chart(row: &ReleaseRow) -> (&str, &str) {
        (&row.summary.chart, &row.summary.version)
    }
    match order {
        ListOrder::State => one.state.cmp(&other.state).then_with(|| place(one).cmp(&place(other))),
        ListOrder::Name => one.summary.name.cmp(&other.summary.name),
        ListOrder::Namespace => place(one).cmp(&place(other)),
        ListOrder::Kind => Ordering::Equal,
        ListOrder::Chart => chart(one).cmp(&chart(other)),
        ListOrder::Age => other.summary.created.cmp(&one.summary.created),
    }
}
