//! Limits of one render. They are needed because values are untrusted and templates can loop.

use std::time::Duration;

/// The limits of one render. The defaults are far above the needs of real charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nodes and loop turns that may be executed, and the work of functions: a step for every 64 bytes that they are
    /// given or make, and a function's own cost where it is slow (passwords, keys, certificates).
    pub steps: u64,
    /// The maximum number of open levels of templates and control structures. A render has the stack for the default.
    pub depth: usize,
    /// The maximum nesting of YAML that is read or written. More than the default needs a larger stack.
    pub yaml_depth: usize,
    /// Bytes that all templates together may write.
    pub output: usize,
    /// The bytes that a render may allocate: its values, results of functions, output and, if they are read, objects.
    /// Memory counts when it is allocated, also if it is freed soon after.
    pub memory: u64,
    /// Processor time of the thread that the execution of all templates may take: a loaded machine doesn't count.
    pub time: Duration,
}

/// The ratio of the memory limit to the output limit. Output is read again, and is then held as text and as data.
const OUTPUT: u64 = 8;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            steps: 200_000_000,
            depth: 10_000,
            yaml_depth: go_yaml::MAX_DEPTH,
            output: 64 << 20,
            memory: 1 << 30,
            time: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// The default for a process that has so many bytes of memory for a render.
    pub fn within(memory: u64) -> Self {
        let default = Limits::default();
        let output = usize::try_from(memory / OUTPUT).unwrap_or(usize::MAX);
        Limits {
            memory: memory.min(default.memory),
            output: output.min(default.output),
            ..default
        }
    }

    /// For a name or another short text that `watches.yaml` makes of a custom resource: a few milliseconds of work, however
    /// large the custom resource is.
    pub fn of_a_name() -> Self {
        Limits {
            steps: 200_000,
            depth: 100,
            output: 1 << 20,
            memory: 32 << 20,
            time: Duration::from_millis(250),
            ..Limits::default()
        }
    }
}

/// The limit that a render exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Steps(u64),
    Depth(usize),
    Output(usize),
    Memory(u64),
    /// The length of one text that a function makes.
    Text(usize),
    /// The nesting of maps and lists, also through a cycle.
    Nesting(usize),
    /// The size of a regular expression times that of the text it is matched with.
    Regex,
    Time(Duration),
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Limit::Steps(n) => write!(f, "the limit of {n} steps"),
            Limit::Depth(n) => write!(f, "the limit of {n} nested levels"),
            Limit::Output(n) => write!(f, "the limit of {n} bytes of output"),
            Limit::Memory(n) => write!(f, "the limit of {n} bytes of memory"),
            Limit::Text(n) => write!(f, "the limit of {n} bytes for one text"),
            Limit::Nesting(n) => write!(f, "the limit of {n} levels of maps and lists within each other"),
            Limit::Regex => f.write_str("the limit of the size of a regular expression times that of its text"),
            Limit::Time(time) => write!(f, "the limit of {} seconds of processor time", time.as_secs_f64()),
        }
    }
}
