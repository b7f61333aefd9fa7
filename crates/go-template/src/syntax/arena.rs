//! The memory of syntax trees: one block for each kind of part of a text. A chart has about 100,000 parts, mostly in
//! lists of one or two. A box for each list would need more memory than its content.

use std::marker::PhantomData;
use std::ops::Range;

use crate::syntax::ast::{Branch, Chain, CommandNode, Invocation, Operand, Pipe, TemplateNode, TextSpan};
use crate::text::number::Constant;
use crate::value::Str;

/// A part in an arena.
pub(crate) struct PartId<T>(u32, PhantomData<fn() -> T>);

/// A list in an arena.
pub(crate) struct Run<T> {
    first: u32,
    count: u32,
    kind: PhantomData<fn() -> T>,
}

/// A type that arenas hold.
pub(crate) trait ArenaPart: Sized {
    fn block(arena: &Arena) -> &[Self];
    fn grown(arena: &Growing) -> &[Self];
    fn growing(arena: &mut Growing) -> &mut Vec<Self>;
}

macro_rules! arena {
    ($($block:ident: $kind:ty,)*) => {
        /// The parts of a text's trees.
        pub(crate) struct Arena {
            $($block: Box<[$kind]>,)*
        }

        /// An arena that is being filled.
        #[derive(Default)]
        pub(crate) struct Growing {
            $($block: Vec<$kind>,)*
        }

        impl Growing {
            /// The arena, each block in memory of just its size.
            pub(crate) fn finish(self) -> Arena {
                Arena {
                    $($block: fitted(self.$block),)*
                }
            }
        }

        $(impl ArenaPart for $kind {
            #[inline]
            fn block(arena: &Arena) -> &[Self] {
                &arena.$block
            }

            #[inline]
            fn grown(arena: &Growing) -> &[Self] {
                &arena.$block
            }

            #[inline]
            fn growing(arena: &mut Growing) -> &mut Vec<Self> {
                &mut arena.$block
            }
        })*
    };
}

arena! {
    nodes: TemplateNode,
    branches: Branch,
    invocations: Invocation,
    pipes: Pipe,
    commands: CommandNode,
    operands: Operand,
    chains: Chain,
    names: TextSpan,
    strings: Str,
    numbers: Constant,
}

/// Moves parts to memory of just their size: shrinking a block mostly leaves it as large as it was.
fn fitted<T>(mut parts: Vec<T>) -> Box<[T]> {
    parts.drain(..).collect()
}

impl Arena {
    pub(crate) fn one<T: ArenaPart>(&self, id: PartId<T>) -> &T {
        &T::block(self)[id.0 as usize]
    }

    pub(crate) fn all<T: ArenaPart>(&self, run: Run<T>) -> &[T] {
        &T::block(self)[run.range()]
    }
}

impl Growing {
    /// Adds a part.
    pub(crate) fn add<T: ArenaPart>(&mut self, part: T) -> PartId<T> {
        let block = T::growing(self);
        block.push(part);
        PartId(block.len() as u32 - 1, PhantomData)
    }

    /// Adds the parts that were collected after the first `mark`.
    pub(crate) fn take<T: ArenaPart>(&mut self, collected: &mut Vec<T>, mark: usize) -> Run<T> {
        let first = self.mark::<T>();
        let block = T::growing(self);
        // Mostly that is one.
        if collected.len() == mark + 1 {
            block.extend(collected.pop())
        } else {
            block.extend(collected.drain(mark..))
        }
        self.since(first)
    }

    /// The number of parts of that kind.
    pub(crate) fn mark<T: ArenaPart>(&self) -> u32 {
        T::grown(self).len() as u32
    }

    /// The parts that were added since that mark.
    pub(crate) fn since<T: ArenaPart>(&self, mark: u32) -> Run<T> {
        Run::new(mark, self.mark::<T>().saturating_sub(mark))
    }

    pub(crate) fn all<T: ArenaPart>(&self, run: Run<T>) -> &[T] {
        &T::grown(self)[run.range()]
    }
}

impl<T> Run<T> {
    pub(crate) fn new(first: u32, count: u32) -> Self {
        Run {
            first,
            count,
            kind: PhantomData,
        }
    }

    pub(crate) fn first(self) -> u32 {
        self.first
    }

    pub(crate) fn count(self) -> u32 {
        self.count
    }

    fn range(self) -> Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }
}

impl<T> Clone for Run<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Run<T> {}

impl<T> Clone for PartId<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for PartId<T> {}

#[cfg(test)]
mod tests {
    use crate::syntax::arena::*;

    /// The types of which a chart with one megabyte of templates has many.
    #[test]
    fn parts_are_small() {
        let sizes = [
            size_of::<TemplateNode>(),
            size_of::<CommandNode>(),
            size_of::<Operand>(),
        ];
        assert_eq!(sizes, [20, 12, 16]);
    }
}
