//! The natural order of keys in written mappings: go-yaml v2's `keyList`.

use std::cmp::Ordering;

/// Sorts by key. Own merge sort, because the order of the libraries is not transitive for some keys, which
/// `slice::sort_by` answers with a panic.
pub(crate) fn sort<T: Copy>(items: &mut [T], key: impl Fn(&T) -> &str + Copy) {
    let less = |a: &T, b: &T| compare(key(a), key(b)) == Ordering::Less;
    if items.len() <= 12 {
        for i in 1..items.len() {
            let mut j = i;
            while j > 0 && less(&items[j], &items[j - 1]) {
                items.swap(j, j - 1);
                j -= 1;
            }
        }
        return;
    }
    let middle = items.len() / 2;
    sort(&mut items[..middle], key);
    sort(&mut items[middle..], key);
    let left = items[..middle].to_vec();
    let (mut l, mut r) = (0, middle);
    for at in 0..items.len() {
        if l == left.len() {
            break;
        }
        if r < items.len() && less(&items[r], &left[l]) {
            items[at] = items[r];
            r += 1;
        } else {
            items[at] = left[l];
            l += 1;
        }
    }
}

/// The number that a digit run denotes, in Go's wrapping arithmetic, and the length of the run.
fn run(chars: impl Iterator<Item = char>, start: i64) -> (i64, usize) {
    let mut value = start;
    let mut length = 0;
    for c in chars.take_while(|&c| c.is_numeric()) {
        value = value.wrapping_mul(10).wrapping_add(i64::from(u32::from(c)) - 48);
        length += 1;
    }
    (value, length)
}

fn compare(a: &str, b: &str) -> Ordering {
    let common = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let mut at = common;
    while !a.is_char_boundary(at) || !b.is_char_boundary(at) {
        at -= 1;
    }
    let (before, a, b) = (&a[..at], &a[at..], &b[at..]);
    let (Some(x), Some(y)) = (a.chars().next(), b.chars().next()) else {
        return a.chars().count().cmp(&b.chars().count());
    };
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (false, false) => {}
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
    }
    let mut start = 0;
    if (x == '0' || y == '0') && before.chars().rev().take_while(|&c| c.is_numeric()).any(|c| c != '0') {
        start = 1;
    }
    let (a_value, a_length) = run(a.chars(), start);
    let (b_value, b_length) = run(b.chars(), start);
    a_value.cmp(&b_value).then(a_length.cmp(&b_length)).then(x.cmp(&y))
}

#[cfg(test)]
mod tests {
    use crate::write::sort::*;

    #[test]
    fn natural_order() {
        let many: Vec<String> = (0..100).map(|i| format!("key{i}")).collect();
        let keys = [
            "", "_", "1", "2", "10", "A", "B", "a", "a b", "a-b", "a.b", "a/b", "a_b", "a1", "a1-", "a1b",
        ];
        let more = ["a01", "a2", "a10", "ab", "b", "ä"];
        for keys in [&keys[..], &more, &many.iter().map(String::as_str).collect::<Vec<_>>()] {
            let mut sorted: Vec<&str> = keys.iter().rev().copied().collect();
            sort(&mut sorted, |k| k);
            assert_eq!(sorted, keys);
        }
    }
}
