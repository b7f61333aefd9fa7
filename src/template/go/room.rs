//! How much room Go leaves behind the last element of a slice: `slice` may go as far, and finds zero values there.
//!
//! Facts come from Go's `runtime` (`growslice`, `roundupsize` and the size classes of its allocator), Go 1.26.

use super::value::{ListKind, Value};

/// The sizes, in bytes, in which Go's allocator serves small objects.
const CLASSES: [u16; 67] = [
    8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448, 480,
    512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304, 2688, 3072, 3200, 3456, 4096, 4864,
    5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072, 20480,
    21760, 24576, 27264, 28672, 32768,
];
/// What larger objects are a multiple of, in bytes.
const PAGE: usize = 8 << 10;
/// What stands before an object that holds pointers, if it is over [`HEADED`], in bytes.
const HEADER: usize = 8;
const HEADED: usize = 512;
/// Up to this capacity, slices grow to twice theirs.
const DOUBLING: usize = 256;

/// The elements that a slice has room for.
#[derive(Clone, Copy, Debug)]
pub enum Room {
    /// Those that it has: it was made with their number.
    Full,
    /// As many as there is room for after its elements were appended one by one, where there was room for some before.
    Appended(usize),
    /// So many.
    Of(usize),
}

/// The capacity of a slice of `capacity` elements to which others are appended, so that there are `len`.
pub fn append(kind: ListKind, capacity: usize, len: usize) -> usize {
    if len <= capacity {
        return capacity;
    }
    let (size, pointers) = kind.element_size();
    let mut grown = capacity;
    if len > 2 * capacity {
        grown = len;
    } else if capacity < DOUBLING {
        grown = 2 * capacity;
    } else {
        while grown < len {
            grown += (grown + 3 * DOUBLING) / 4;
        }
    }
    allocated(grown * size, pointers) / size
}

/// The bytes that are reserved for an object, of those that hold it.
fn allocated(bytes: usize, pointers: bool) -> usize {
    let largest = CLASSES.last().map_or(0, |class| usize::from(*class));
    if bytes > largest - HEADER {
        return bytes.next_multiple_of(PAGE);
    }
    let header = if pointers && bytes > HEADED { HEADER } else { 0 };
    let class = CLASSES.partition_point(|class| usize::from(*class) < bytes + header);
    CLASSES.get(class).map_or(bytes, |class| usize::from(*class) - header)
}

// === impl Room ===

impl Room {
    /// The capacity of a slice of `len` elements.
    pub fn capacity(self, kind: ListKind, len: usize) -> usize {
        match self {
            Room::Full => len,
            Room::Appended(mut capacity) => {
                while capacity < len {
                    capacity = append(kind, capacity, capacity + 1);
                }
                capacity
            }
            Room::Of(capacity) => capacity.max(len),
        }
    }
}

// === impl ListKind ===

impl ListKind {
    /// How many bytes an element takes, and whether it holds pointers.
    fn element_size(self) -> (usize, bool) {
        match self {
            ListKind::Any | ListKind::String | ListKind::VersionSet => (16, true),
            ListKind::Lists => (24, true),
            ListKind::Map => (8, true),
            ListKind::Int => (8, false),
            ListKind::Bytes => (1, false),
        }
    }

    /// The element's zero value.
    pub fn zero(self) -> Value {
        match self {
            ListKind::Any => Value::Nil,
            ListKind::String | ListKind::VersionSet => Value::string(""),
            ListKind::Int => Value::Int(0),
            ListKind::Bytes => Value::Uint8(0),
            ListKind::Map => Value::Map(super::value::Map::nil(super::value::MapKind::Any)),
            ListKind::Lists => Value::List(super::value::List::nil(ListKind::Any)),
        }
    }
}
