//! Whether two answers are the same, apart from what Helm itself answers differently from run to run.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline};

use crate::answer::RenderAnswer;

/// How an answer of ours compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RenderVerdict {
    /// Equal to what Helm answered, byte for byte.
    Identical,
    /// Equal but for what varies: Helm's answers differ among themselves, and ours only where they do.
    Varies,
    /// The first lines that differ, `-` Helm's and `+` ours.
    Different(Vec<String>),
}

/// Why Helm must be reruns again before there is a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rerun {
    Now,
    /// In another second.
    Later,
}

/// How often Helm is reruns at most when its lines come in another order, or when it fails: which of a chart's faults it
/// meets first may hang on the order of a map.
const MOST: usize = 6;

/// Compares our answer with Helm's `first` and its `others` for the same arguments.
///
/// # Errors
/// `Rerun` when another answer of Helm's is needed.
pub fn judge(ours: &RenderAnswer, first: &RenderAnswer, others: &[RenderAnswer]) -> Result<RenderVerdict, Rerun> {
    if ours == first {
        return Ok(RenderVerdict::Identical);
    }
    if others.contains(ours) {
        return Ok(RenderVerdict::Varies);
    }
    let last = others.last().ok_or(Rerun::Now)?;
    let all: Vec<&RenderAnswer> = std::iter::once(first).chain(others).collect();
    let fails = first.code != 0 && ours.code != 0;
    if fails && others.len() < MOST && all.iter().all(|helm| helm.error != ours.error) {
        return Err(Rerun::Now);
    }
    let texts = |part: fn(&RenderAnswer) -> &str| all.iter().map(|answer| part(answer)).collect::<Vec<_>>();
    let same = ours.code == last.code
        && agrees(&ours.stdout, &texts(|answer| &answer.stdout))
        && agrees(&ours.error, &texts(|answer| &answer.error));
    if same {
        return Ok(RenderVerdict::Varies);
    }
    if others.len() < 2 {
        return Err(Rerun::Later);
    }
    if others.len() < MOST && is_reordered(&ours.stdout, &first.stdout) && is_reordered(&ours.error, &first.error) {
        return Err(Rerun::Now);
    }
    let mut lines = differences(&first.stdout, &ours.stdout);
    lines.extend(differences(&first.error, &ours.error));
    if ours.code != first.code {
        lines.push(format!("-exit code {}", first.code));
        lines.push(format!("+exit code {}", ours.code));
    }
    Ok(RenderVerdict::Different(lines))
}

/// Whether a text equals Helm's texts where those agree with each other.
fn agrees(ours: &str, helms: &[&str]) -> bool {
    if helms.contains(&ours) {
        return true;
    }
    if helms.windows(2).all(|pair| pair[0] == pair[1]) {
        return false;
    }
    let split: Vec<Vec<&str>> = helms.iter().map(|text| lines_of(text)).collect();
    let lines = lines_of(ours);
    if helms.iter().all(|helm| is_reordered(helm, helms[0])) {
        return is_reordered(ours, helms[0]);
    }
    if split.iter().all(|helm| helm.len() == lines.len()) {
        let variants = |i: usize| split.iter().map(|helm| helm[i]).collect::<Vec<&str>>();
        return (0..lines.len()).all(|i| line_agrees(lines[i], &variants(i)));
    }
    fits(&lines, &split)
}

/// The lines of a text without those within its keys and certificates: these are of chance, and the parts of a certificate
/// stand in another order.
fn lines_of(text: &str) -> Vec<&str> {
    let mut is_inside = false;
    let is_kept = |line: &&str| {
        is_inside &= !line.contains("-----END ");
        let is_kept = !is_inside;
        is_inside |= line.contains("-----BEGIN ");
        is_kept
    };
    text.split('\n').filter(is_kept).collect()
}

/// Whether both have the same lines in any order.
fn is_reordered(a: &str, b: &str) -> bool {
    has_parts_of(a, b, &['\n'])
}

/// Whether both lines have the same words in any order.
fn has_words_of(a: &str, b: &str) -> bool {
    has_parts_of(a, b, &[' ', ',', ';'])
}

fn has_parts_of(a: &str, b: &str, separators: &[char]) -> bool {
    let sorted = |text: &str| {
        let mut parts: Vec<String> = text.split(separators).map(str::to_owned).collect();
        parts.sort_unstable();
        parts
    };
    a.len() == b.len() && sorted(a) == sorted(b)
}

/// Whether a line equals Helm's variants outside of the words that vary.
fn line_agrees(ours: &str, helms: &[&str]) -> bool {
    let Some((first, rest)) = helms.split_first() else {
        return false;
    };
    if rest.iter().all(|helm| helm == first) {
        return ours == *first;
    }
    // Lists within a line: words in another order.
    if rest.iter().all(|helm| has_words_of(helm, first)) {
        return has_words_of(ours, first);
    }
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_-$.".contains(byte);
    let common = |length: fn(&[u8], &[u8]) -> usize| {
        let lengths = rest.iter().map(|helm| length(first.as_bytes(), helm.as_bytes()));
        lengths.min().unwrap_or(0)
    };
    // Words of chance may begin or end alike by chance: the mask covers whole words.
    let mut prefix = common(|a, b| a.iter().zip(b).take_while(|(a, b)| a == b).count());
    while prefix > 0 && first.as_bytes().get(prefix - 1).is_some_and(is_word) {
        prefix -= 1;
    }
    let mut suffix = common(|a, b| a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count());
    while suffix > 0 && first.as_bytes().get(first.len() - suffix).is_some_and(is_word) {
        suffix -= 1;
    }
    let ours = ours.as_bytes();
    ours.len() >= prefix + suffix
        && ours.starts_with(&first.as_bytes()[..prefix])
        && ours.ends_with(&first.as_bytes()[first.len() - suffix..])
}

/// Whether our lines hold the lines that Helm's texts have in common, in order, and others only where Helm's differ.
fn fits(ours: &[&str], helms: &[Vec<&str>]) -> bool {
    let Some((first, rest)) = helms.split_first() else {
        return false;
    };
    // Which lines of the first every other has too, and whether something may stand before each (and after all).
    let mut stable = vec![true; first.len()];
    let mut gap = vec![false; first.len() + 1];
    for helm in rest {
        for part in diff(first, helm).iter().filter(|part| part.tag() != DiffTag::Equal) {
            stable[part.old_range()].fill(false);
            gap[part.old_range().end] |= !part.new_range().is_empty();
        }
    }
    let mut at = 0;
    let mut open = false;
    for (i, line) in first.iter().enumerate() {
        open |= gap[i] || !stable[i];
        if !stable[i] {
            continue;
        }
        if open {
            let skip = ours[at.min(ours.len())..].iter().position(|ours| ours == line);
            let Some(skip) = skip else { return false };
            at += skip;
        } else if ours.get(at) != Some(line) {
            return false;
        }
        at += 1;
        open = false;
    }
    open || gap[first.len()] || at == ours.len()
}

/// What is the same and what is not; after ten seconds of looking, what is left counts as different.
fn diff(a: &[&str], b: &[&str]) -> Vec<DiffOp> {
    let until = Instant::now() + Duration::from_secs(10);
    capture_diff_slices_deadline(Algorithm::Patience, a, b, Some(until))
}

/// The lines that only one side has, in order: `-` of the first text, `+` of the second. Not more than a screen.
fn differences(helm: &str, ours: &str) -> Vec<String> {
    const MOST: usize = 12;
    const WIDEST: usize = 240;
    if helm == ours {
        return Vec::new();
    }
    let (a, b): (Vec<&str>, Vec<&str>) = (helm.split('\n').collect(), ours.split('\n').collect());
    let cut = |sign: char, line: &str| -> String { std::iter::once(sign).chain(line.chars().take(WIDEST)).collect() };
    let mut lines = Vec::new();
    for part in diff(&a, &b).iter().filter(|part| part.tag() != DiffTag::Equal) {
        lines.extend(a[part.old_range()].iter().map(|line| cut('-', line)));
        lines.extend(b[part.new_range()].iter().map(|line| cut('+', line)));
    }
    let more = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    if more > 0 {
        lines.push(format!("({more} more lines)"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::slice::from_ref;

    fn answer(stdout: &str) -> RenderAnswer {
        RenderAnswer {
            stdout: stdout.to_owned(),
            error: String::new(),
            code: 0,
        }
    }

    #[test]
    fn only_what_helm_varies_may_differ() {
        let chance = &["a: 1\npw: \"Xy12\"\nb: 2", "a: 1\npw: \"Xz98\"\nb: 2"][..];
        let order = &["x\ny\nz", "y\nx\nz"][..];
        let list = &["lacks: x, y, z", "lacks: z, x, y"][..];
        let key = &[
            "-----BEGIN K\nAA\nsame\n-----END K\nb",
            "-----BEGIN K\nBB\nsame\nC\n-----END K\nb",
        ][..];
        let length = &["k: |\n  AAA\n  BBB\nb", "k: |\n  CCC\n  DDD\n  E\nb"][..];
        for (helms, ours, same) in [
            (chance, "a: 1\npw: \"Xy12\"\nb: 2", true),
            (chance, "a: 1\npw: \"1234567\"\nb: 2", true),
            (chance, "a: 1\npw: 'Xy12'\nb: 2", false),
            (chance, "a: 2\npw: \"Xy12\"\nb: 2", false),
            (chance, "a: 1\npw: \"Xy12\"\nb: 2\nc", false),
            (order, "z\ny\nx", true),
            (order, "z\ny\ny", false),
            (list, "lacks: y, x, z", true),
            (list, "lacks: y, x, w", false),
            (length, "k: |\n  FFF\nb", true),
            (length, "k: |\n  FFF\nb\nc", false),
            (length, "j: |\n  FFF\nb", false),
            (key, "-----BEGIN K\nDD\nEE\nFF\nsame\n-----END K\nb", true),
            (key, "-----BEGIN K\nDD\nsame\n-----END K\nc", false),
        ] {
            assert_eq!(agrees(ours, helms), same, "{helms:?} {ours:?}");
        }
    }

    #[test]
    fn helm_renders_again_before_a_difference_is_reported() {
        let (one, two) = (answer("a\nb"), answer("a\nc"));
        assert_eq!(judge(&one, &one, &[]), Ok(RenderVerdict::Identical));
        assert_eq!(judge(&two, &one, &[]), Err(Rerun::Now));
        assert_eq!(judge(&two, &one, from_ref(&two)), Ok(RenderVerdict::Varies));
        assert_eq!(judge(&two, &one, from_ref(&one)), Err(Rerun::Later));
        let lines = vec!["-b".to_owned(), "+c".to_owned()];
        let twice = [one.clone(), one.clone()];
        assert_eq!(judge(&two, &one, &twice), Ok(RenderVerdict::Different(lines)));
        let failed = RenderAnswer { code: 1, ..one.clone() };
        let lines = vec!["-exit code 0".to_owned(), "+exit code 1".to_owned()];
        let reruns = vec![one.clone(); MOST];
        assert_eq!(judge(&failed, &one, &reruns), Ok(RenderVerdict::Different(lines)));
        // Which fault Helm meets first may vary, so a failing render is tried as often as it takes to meet ours.
        let fault = |error: &str| RenderAnswer {
            error: error.to_owned(),
            ..failed.clone()
        };
        let (mine, theirs) = (fault("x: no y"), fault("z: no w, and more"));
        assert_eq!(judge(&mine, &theirs, &reruns[..0]), Err(Rerun::Now));
        let mut met = vec![theirs.clone(); MOST - 1];
        assert_eq!(judge(&mine, &theirs, &met), Err(Rerun::Now));
        met.push(mine.clone());
        assert_eq!(judge(&mine, &theirs, &met), Ok(RenderVerdict::Varies));
        met[MOST - 1] = theirs.clone();
        let lines = vec!["-z: no w, and more".to_owned(), "+x: no y".to_owned()];
        assert_eq!(judge(&mine, &theirs, &met), Ok(RenderVerdict::Different(lines)));
        let turned = answer("b\na");
        assert_eq!(judge(&turned, &one, &twice), Err(Rerun::Now));
    }

    #[test]
    fn differences_name_the_lines_of_each_side() {
        let lines = differences("a\nb\nc\nd", "a\nx\nc\nd\ne");
        assert_eq!(lines, ["-b", "+x", "+e"]);
        let many: String = (0..40).map(|i| format!("{i}\n")).collect();
        let lines = differences(&many, "");
        assert_eq!((lines.len(), lines[12].as_str()), (13, "(28 more lines)"));
    }
}
