//! The natural order of keys in written mappings (go-yaml v2's `keyList`, and yaml.v3's).

use std::cmp::Ordering;

/// Whose order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    V2,
    /// A digit run that ends in one key and goes on in a letter in the other sorts the letter first.
    V3,
}

/// Sorts by key. Own merge sort, because the order of the libraries is not transitive for some keys, which
/// `slice::sort_by` answers with a panic.
pub(super) fn sort<T: Copy>(items: &mut [T], order: Order, key: impl Fn(&T) -> &str + Copy) {
    let less = |a: &T, b: &T| compare(key(a), key(b), order) == Ordering::Less;
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
    sort(&mut items[..middle], order, key);
    sort(&mut items[middle..], order, key);
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

pub(super) fn compare(a: &str, b: &str, order: Order) -> Ordering {
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
        (x_letter, _) => {
            let letter_first = order == Order::V3 && before.chars().next_back().is_some_and(char::is_numeric);
            return if letter_first == x_letter {
                Ordering::Less
            } else {
                Ordering::Greater
            };
        }
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
    use super::*;

    fn sorted<'a>(keys: &[&'a str], order: Order) -> Vec<&'a str> {
        let mut keys: Vec<&str> = keys.iter().rev().copied().collect();
        sort(&mut keys, order, |k| k);
        keys
    }

    #[test]
    fn natural_order() {
        let keys = [
            "", "_", "1", "2", "10", "A", "B", "a", "a b", "a-b", "a.b", "a/b", "a_b", "a1", "a1-", "a1b",
        ];
        assert_eq!(sorted(&keys, Order::V2), keys);
        let keys = ["a01", "a2", "a10", "ab", "b", "ä"];
        assert_eq!(sorted(&keys, Order::V2), keys);
    }

    #[test]
    fn letters_after_digits_in_v3() {
        assert_eq!(sorted(&["a1-", "a1b"], Order::V2), ["a1-", "a1b"]);
        assert_eq!(sorted(&["a1b", "a1-"], Order::V3), ["a1b", "a1-"]);
    }

    #[test]
    fn many_keys_keep_their_order() {
        let keys: Vec<String> = (0..100).map(|i| format!("key{i}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        assert_eq!(sorted(&keys, Order::V2), keys);
    }
}
