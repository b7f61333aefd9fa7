//! `collisions`: what happens when a member's name is taken by an object that the operator did not make.

/// What a release may take that is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collisions {
    /// Nothing: the object stays untouched, and the release says whose it is.
    #[default]
    Prevent,
    /// What a Helm release of the same name in the same namespace made.
    Adopt,
    /// Anything but another release's members.
    Force,
}

impl Collisions {
    /// As `watches.yaml` writes them.
    pub const NAMES: [&str; 3] = ["Prevent", "Adopt", "Force"];

    /// `None` if it is none of [`Self::NAMES`].
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "Prevent" => Collisions::Prevent,
            "Adopt" => Collisions::Adopt,
            "Force" => Collisions::Force,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_a_policy_and_nothing_is_taken_by_default() {
        let parsed = Collisions::NAMES.map(Collisions::parse);
        let all = [Collisions::Prevent, Collisions::Adopt, Collisions::Force];
        assert_eq!(parsed, all.map(Some));
        assert_eq!(Collisions::default(), Collisions::Prevent);
        assert_eq!(Collisions::parse("force"), None);
    }
}
