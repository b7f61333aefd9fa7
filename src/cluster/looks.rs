//! Looks for what may be in the way of new members, many at once: a thousand custom resources have thousands of members
//! looked for before they are made. While one look at a kind in a namespace is under way, the others wait; then one LIST
//! answers all of them, as the group commit of a database does.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{Sender, channel};

use super::error::Result;
use crate::plan::members::Scope;

/// So many looks must wait before one LIST is cheaper than a GET for each.
const WORTH_A_LIST: usize = 4;

/// The looks that are under way. One for all reconciles of a process.
#[derive(Default)]
pub struct Looks {
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    /// Where a look is under way, and who waits for it.
    busy: HashMap<Scope, Vec<Sender<Turn>>>,
    /// Where there is more than is worth a LIST.
    crowded: HashSet<Scope>,
}

/// What becomes of a look that waited.
enum Turn {
    /// A LIST that began after the question has found these names.
    Told(Arc<HashSet<String>>),
    /// It is the one that lists, and tells these.
    Lists(Vec<Sender<Turn>>),
    Alone,
}

/// What is known before a name is asked for. Others wait until it is dropped.
pub struct Look<'a> {
    names: Option<Arc<HashSet<String>>>,
    _busy: Option<Busy<'a>>,
}

/// Ends a look, and gives those who waited their turn.
struct Busy<'a> {
    looks: &'a Looks,
    place: Scope,
}

// === impl Looks ===

impl Looks {
    /// Waits for the look that is under way in a place, if there is one, and shares a `list` with whoever waits as well.
    /// `list` answers the names that are taken there, or `None` if they are too many to list.
    pub async fn begin<F>(&self, place: &Scope, list: impl FnOnce() -> F) -> Look<'_>
    where
        F: Future<Output = Result<Option<HashSet<String>>>>,
    {
        let told = {
            let mut places = self.lock();
            match places.busy.get_mut(place) {
                Some(waiting) => {
                    let (tell, told) = channel();
                    waiting.push(tell);
                    Some(told)
                }
                None => {
                    places.busy.insert(place.clone(), Vec::new());
                    None
                }
            }
        };
        let busy = || Busy {
            looks: self,
            place: place.clone(),
        };
        let Some(told) = told else {
            return Look {
                names: None,
                _busy: Some(busy()),
            };
        };
        let names = match told.await {
            Ok(Turn::Told(names)) => Some(names),
            Ok(Turn::Lists(others)) => {
                let _busy = busy();
                let listed = list().await;
                if let Ok(None) = listed {
                    self.lock().crowded.insert(place.clone());
                }
                // On an error each asks for itself: it meets the error again, and has somebody to tell.
                let names = listed.ok().flatten().map(Arc::new);
                for other in others {
                    let _ = other.send(names.clone().map_or(Turn::Alone, Turn::Told));
                }
                names
            }
            // Who listed was interrupted.
            Ok(Turn::Alone) | Err(_) => None,
        };
        Look { names, _busy: None }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Look ===

impl Look<'_> {
    /// True if it is certain that no object has this name.
    pub fn is_free(&self, name: &str) -> bool {
        self.names.as_ref().is_some_and(|names| !names.contains(name))
    }
}

// === impl Busy ===

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut places = self.looks.lock();
        let mut waiting = places.busy.remove(&self.place).unwrap_or_default();
        if waiting.len() < WORTH_A_LIST || places.crowded.contains(&self.place) {
            for waiting in waiting {
                let _ = waiting.send(Turn::Alone);
            }
            return;
        }
        // Until somebody takes it: a reconcile may have been interrupted while it waited.
        while let Some(next) = waiting.pop() {
            match next.send(Turn::Lists(waiting)) {
                Ok(()) => {
                    places.busy.insert(self.place.clone(), Vec::new());
                    return;
                }
                Err(Turn::Lists(others)) => waiting = others,
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::cluster::error::Error;
    use crate::plan::identity::GroupKind;

    fn place() -> Scope {
        Scope {
            group_kind: GroupKind::parse("ConfigMap"),
            namespace: Some("shop".to_owned()),
        }
    }

    type Listed = fn() -> Result<Option<HashSet<String>>>;

    fn taken() -> Result<Option<HashSet<String>>> {
        Ok(Some(HashSet::from(["taken".to_owned()])))
    }

    /// So many looks while one is under way: how many of them asked alone, and how often was listed?
    async fn burst(looks: &Arc<Looks>, waiting: usize, listed: Listed) -> (usize, usize) {
        let lists = Arc::new(AtomicUsize::new(0));
        let first = looks.begin(&place(), async || listed()).await;
        assert!(!first.is_free("a"), "who is first asks for the name it wants");
        let others: Vec<_> = (0..waiting)
            .map(|_| {
                let (looks, lists) = (looks.clone(), lists.clone());
                tokio::spawn(async move {
                    let list = || async {
                        lists.fetch_add(1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        listed()
                    };
                    let look = looks.begin(&place(), list).await;
                    assert!(!look.is_free("taken"));
                    look.is_free("a")
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(
            lists.load(Ordering::SeqCst),
            0,
            "nothing is listed while a look is under way"
        );
        drop(first);
        let mut alone = 0;
        for other in others {
            alone += usize::from(!other.await.unwrap());
        }
        assert!(looks.lock().busy.is_empty(), "nobody is left waiting");
        (alone, lists.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn one_list_answers_all_who_waited() {
        assert_eq!(burst(&Arc::default(), 30, taken).await, (0, 1));
    }

    #[tokio::test]
    async fn a_few_ask_for_themselves() {
        assert_eq!(burst(&Arc::default(), WORTH_A_LIST - 1, taken).await, (3, 0));
    }

    #[tokio::test]
    async fn a_crowded_place_is_listed_once_and_an_error_settles_nothing() {
        let looks = Arc::default();
        let failing: Listed = || Err(Error::Unavailable("no".to_owned()));
        assert_eq!(burst(&looks, 30, failing).await, (30, 1));
        assert_eq!(burst(&looks, 30, || Ok(None)).await, (30, 1));
        assert_eq!(burst(&looks, 30, taken).await, (30, 0));
    }

    #[tokio::test]
    async fn who_goes_away_while_waiting_or_listing_keeps_nobody() {
        let looks: Arc<Looks> = Arc::default();
        let first = looks.begin(&place(), async || taken()).await;
        let spawn = |listed: bool| {
            let looks = looks.clone();
            tokio::spawn(async move {
                let list = || async move {
                    if !listed {
                        std::future::pending::<()>().await;
                    }
                    taken()
                };
                looks.begin(&place(), list).await.is_free("a")
            })
        };
        let stay: Vec<_> = (0..WORTH_A_LIST).map(|_| spawn(true)).collect();
        let lists = spawn(false);
        let gone = spawn(false);
        tokio::task::yield_now().await;
        gone.abort();
        let _ = gone.await;
        drop(first);
        tokio::task::yield_now().await;
        lists.abort();
        for look in stay {
            assert!(!look.await.unwrap(), "each asks for itself");
        }
        assert!(looks.lock().busy.is_empty());
    }
}
