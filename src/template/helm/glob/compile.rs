//! From a tree to matchers: what the alternatives of braces have in common is taken out, what follows each other is glued
//! together where one matcher does for it, and the rest hangs on the longest matcher of a known length.

use super::Steps;
use super::matcher::{BTree, Matcher};
use super::parse::Node;

pub(super) fn compile(node: &Node, steps: &Steps) -> Result<Matcher, String> {
    let matcher = match node {
        Node::AnyOf(options) => {
            return match common_parts(options, steps)? {
                Some(pattern) => compile(&pattern, steps),
                None => Ok(Matcher::AnyOf(all(options, steps)?)),
            };
        }
        Node::Pattern(parts) if parts.is_empty() => return Ok(Matcher::Nothing),
        Node::Pattern(parts) => join(glue_longest(all(parts, steps)?, steps)?, steps)?,
        Node::Nothing => Matcher::Nothing,
        Node::List { chars, negated } => Matcher::List {
            chars: chars.clone(),
            negated: *negated,
        },
        Node::Range { low, high, negated } => Matcher::Range {
            low: *low,
            high: *high,
            negated: *negated,
        },
        Node::Text(text) => Matcher::Text(text.clone()),
        Node::Any => Matcher::Any,
        Node::Super => Matcher::Super,
        Node::Single => Matcher::Single,
    };
    Ok(simplified(matcher))
}

fn all(nodes: &[Node], steps: &Steps) -> Result<Vec<Matcher>, String> {
    let compiled = nodes.iter().map(|node| compile(node, steps).map(simplified));
    compiled.collect()
}

/// A matcher that does the same, or what the library takes for the same.
fn simplified(matcher: Matcher) -> Matcher {
    match matcher {
        Matcher::AnyOf(mut options) if options.len() == 1 => options.pop().unwrap_or(Matcher::Nothing),
        Matcher::List { chars, negated: false } if chars.len() == 1 => Matcher::Text(chars.into_iter().collect()),
        Matcher::BTree(mut tree) => {
            tree.left = tree.left.map(simplified);
            tree.right = tree.right.map(simplified);
            around_text(&tree).unwrap_or(Matcher::BTree(tree))
        }
        matcher => matcher,
    }
}

fn around_text(tree: &BTree) -> Option<Matcher> {
    let Matcher::Text(text) = &tree.value else { return None };
    let text = text.clone();
    Some(match (&tree.left, &tree.right) {
        (None, None) => Matcher::Text(text),
        (Some(Matcher::Super), Some(Matcher::Super)) => Matcher::Contains { text, negated: false },
        (Some(Matcher::Super), None) => Matcher::Suffix(text),
        (None, Some(Matcher::Super)) => Matcher::Prefix(text),
        (None, Some(Matcher::Suffix(suffix))) => Matcher::PrefixSuffix(text, suffix.clone()),
        (Some(Matcher::Prefix(prefix)), None) => Matcher::PrefixSuffix(prefix.clone(), text),
        (Some(Matcher::Any), None) => Matcher::SuffixAny(text),
        (None, Some(Matcher::Any)) => Matcher::PrefixAny(text),
        _ => return None,
    })
}

/// One matcher for matchers that follow each other.
fn join(mut matchers: Vec<Matcher>, steps: &Steps) -> Result<Matcher, String> {
    steps.spend(matchers.len())?;
    if matchers.len() == 1 {
        return Ok(matchers.remove(0));
    }
    if let Some(glued) = glued(&matchers, steps)? {
        return Ok(glued);
    }
    let longest = matchers
        .iter()
        .enumerate()
        .filter_map(|(at, m)| Some((m.length()?, at)));
    let at = longest.max().map(|(_, at)| at);
    // Where no length is known, the first is taken.
    let right = matchers.split_off(at.unwrap_or(0) + 1);
    let Some(value) = matchers.pop() else {
        return Ok(Matcher::Nothing);
    };
    let side = |matchers: Vec<Matcher>| match matchers.is_empty() {
        true => Ok(None),
        false => join(matchers, steps).map(Some),
    };
    Ok(Matcher::BTree(Box::new(BTree::new(
        value,
        side(matchers)?,
        side(right)?,
    ))))
}

/// Puts the longest runs that one matcher does for into one.
fn glue_longest(mut matchers: Vec<Matcher>, steps: &Steps) -> Result<Vec<Matcher>, String> {
    loop {
        let mut best: Option<(Matcher, usize, usize)> = None;
        for from in 0..matchers.len() {
            for to in (from + 1..=matchers.len()).rev() {
                let Some(found) = glued(matchers.get(from..to).unwrap_or_default(), steps)? else {
                    continue;
                };
                let is_better = best.as_ref().is_none_or(|(best, best_from, best_to)| {
                    let is_longer = best
                        .length()
                        .zip(found.length())
                        .is_some_and(|(best, found)| found > best);
                    is_longer || best_to - best_from < to - from
                });
                if is_better {
                    best = Some((found, from, to));
                }
            }
        }
        let Some((found, from, to)) = best else {
            return Ok(matchers);
        };
        matchers.splice(from..to, [found]);
    }
}

/// One matcher that does for all of those, if there is one.
fn glued(matchers: &[Matcher], steps: &Steps) -> Result<Option<Matcher>, String> {
    steps.spend(0)?;
    if matchers.len() <= 1 {
        return Ok(None);
    }
    if let Some(every) = glued_as_every(matchers, steps)? {
        return Ok(Some(every));
    }
    let mut length = 0;
    for matcher in matchers {
        steps.spend(0)?;
        let Some(one) = matcher.length() else { return Ok(None) };
        length += one;
    }
    Ok(Some(Matcher::Row {
        matchers: matchers.to_vec(),
        length,
    }))
}

/// For wildcards that leave out the same characters.
fn glued_as_every(matchers: &[Matcher], steps: &Steps) -> Result<Option<Matcher>, String> {
    let (mut has_any, mut has_super, mut least) = (false, false, 0);
    let mut left_out: Option<&[char]> = None;
    for matcher in matchers {
        steps.spend(0)?;
        let these: &[char] = match matcher {
            Matcher::Super => {
                has_super = true;
                &[]
            }
            Matcher::Any => {
                has_any = true;
                &['/']
            }
            Matcher::Single => {
                least += 1;
                &['/']
            }
            Matcher::List { chars, negated: true } => {
                least += 1;
                chars
            }
            _ => return Ok(None),
        };
        if *left_out.get_or_insert(these) != these {
            return Ok(None);
        }
    }
    let left_out: String = left_out.unwrap_or_default().iter().collect();
    Ok(Some(match (has_any, has_super, least) {
        (false, true, 0) => Matcher::Super,
        (true, false, 0) => Matcher::Any,
        _ => {
            let mut every = Vec::new();
            if least > 0 {
                every.push(Matcher::Min(least));
                if !has_any && !has_super {
                    every.push(Matcher::Max(least));
                }
            }
            if !left_out.is_empty() {
                every.push(Matcher::Contains {
                    text: left_out,
                    negated: true,
                });
            }
            Matcher::EveryOf(every)
        }
    }))
}

/// The alternatives as a pattern of what they have in common, and of alternatives for the rest.
fn common_parts(options: &[Node], steps: &Steps) -> Result<Option<Node>, String> {
    let mut patterns = Vec::new();
    for option in options {
        let Node::Pattern(parts) = option else { return Ok(None) };
        steps.spend(parts.len())?;
        patterns.push(parts.as_slice());
    }
    let (left, right) = common_counts(&patterns);
    let Some(first) = patterns.first().filter(|_| left + right > 0) else {
        return Ok(None);
    };
    let mut rest: Vec<Node> = Vec::new();
    for parts in &patterns {
        steps.spend(rest.len())?;
        let own = parts.get(left..parts.len().saturating_sub(right)).unwrap_or_default();
        let node = match own.is_empty() {
            true => Node::Nothing,
            false => Node::Pattern(own.to_vec()),
        };
        if !rest.contains(&node) {
            rest.push(node);
        }
    }
    let part = |parts: Option<&[Node]>| {
        let parts = parts.unwrap_or_default();
        (!parts.is_empty()).then(|| Node::Pattern(parts.to_vec()))
    };
    let middle = match rest.len() {
        0 | 1 => rest.pop().filter(|only| *only != Node::Nothing),
        _ => Some(Node::AnyOf(rest)),
    };
    let parts = [
        part(first.get(..left)),
        middle,
        part(first.get(first.len().saturating_sub(right)..)),
    ];
    Ok(Some(Node::Pattern(parts.into_iter().flatten().collect())))
}

/// How many parts the patterns have in common at their beginning and at their end.
fn common_counts(patterns: &[&[Node]]) -> (usize, usize) {
    let length = patterns.iter().map(|parts| parts.len()).min().unwrap_or(0);
    let Some(shortest) = patterns.iter().position(|parts| parts.len() == length) else {
        return (0, 0);
    };
    if patterns.len() <= 1 {
        return (0, 0);
    }
    let others = || patterns.iter().enumerate().filter(|(at, _)| *at != shortest);
    let Some(parts) = patterns.get(shortest) else {
        return (0, 0);
    };
    let (mut left, mut right) = (0, 0);
    let (mut left_ends, mut right_ends) = (false, false);
    for at in 0..length {
        if left + right >= length || left_ends && right_ends {
            break;
        }
        let back = length - 1 - at;
        for (_, other) in others() {
            if left_ends && right_ends {
                break;
            }
            left_ends |= parts.get(at) != other.get(at);
            // What the left side may have already is not taken twice.
            right_ends |= !left_ends && back <= at;
            right_ends |= parts.get(back) != other.get(back + other.len() - length);
        }
        left += usize::from(!left_ends);
        right += usize::from(!right_ends);
    }
    (left, right)
}
