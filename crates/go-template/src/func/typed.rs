//! Functions from closures: the parameters' types are those of the closure's signature.

use std::marker::PhantomData;

use super::{CallError, Func, Param};
use crate::host::Host;
use crate::meter::Meter;
use crate::value::{List, Map, Str, Value};

/// The parameters of a function, derived from the closure's type.
#[derive(Default)]
pub struct Signature {
    params: Vec<Param>,
    variadic: Option<Param>,
}

/// The arguments of a call, read one after the other.
pub struct Args<'a> {
    all: &'a [Value],
    taken: usize,
    meter: Option<&'a Meter>,
}

/// A type that a parameter may have. Implement it for references to your own types to take them back from
/// [`Value::Object`].
pub trait Argument<'a> {
    /// The type itself, for the time that the arguments live.
    type Output;
    /// Declares Go's type of the parameter.
    fn declare(signature: &mut Signature);
    /// Reads it from the arguments. Returns `None` if the next argument has another type.
    fn take(args: &mut Args<'a>) -> Option<Self::Output>;
}

/// The parameters of a closure: a tuple of [`Argument`]s.
pub trait Arguments<'a> {
    /// The tuple, for the time that the arguments live.
    type Output;
    /// Declares Go's types of the parameters.
    fn declare(signature: &mut Signature);
    /// Reads all of them.
    ///
    /// # Errors
    /// An argument is missing or has another type. The evaluator has checked that; other callers may not have.
    fn take(args: &mut Args<'a>) -> Result<Self::Output, CallError>;
}

/// A closure over those parameters.
pub trait Function<A, R>: Send + Sync + 'static {
    /// Calls it.
    fn call(&self, args: A) -> R;
}

/// A closure over the context and those parameters.
pub trait ContextFunction<C: ?Sized, A, R>: Send + Sync + 'static {
    /// Calls it.
    fn call(&self, context: &mut C, args: A) -> R;
}

/// The return type of a closure: a value, a type that converts to one, or a `Result` of either.
pub trait Output {
    /// Converts it for the evaluator.
    ///
    /// # Errors
    /// Those of the function.
    fn into_result(self) -> Result<Value, CallError>;
}

/// The repeated last parameter, of type `T`.
#[derive(Clone, Copy)]
pub struct Rest<'a, T> {
    /// The arguments that are left; all of them are of that type.
    pub values: &'a [Value],
    of: PhantomData<fn() -> T>,
}

/// All arguments of the call, for functions that must identify a call. It is not a parameter of the template function.
#[derive(Clone, Copy)]
pub struct Given<'a>(pub &'a [Value]);

impl<C: Host + ?Sized + 'static> Func<C> {
    /// A function that depends on its arguments, and on the [`Meter`] if that is one of its parameters, such as
    /// `|count: i64, text: &[u8]| text.repeat(count as usize)`.
    ///
    /// ```
    /// use go_template::{Func, Rest, host::Plain};
    ///
    /// let join = Func::<Plain>::new("join", |separator: &[u8], parts: Rest<&[u8]>| {
    ///     parts.iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join(&*String::from_utf8_lossy(separator))
    /// });
    /// assert_eq!(join.name, "join");
    /// ```
    pub fn new<A, R, F>(name: &'static str, function: F) -> Self
    where
        A: for<'a> Arguments<'a>,
        R: Output,
        F: Function<A, R> + for<'a> Function<<A as Arguments<'a>>::Output, R>,
    {
        Func::of::<A>(
            name,
            Box::new(move |context, args| {
                let mut args = Args::new(args, Some(context.meter()));
                function.call(<A as Arguments<'_>>::take(&mut args)?).into_result()
            }),
        )
    }

    /// A function whose first parameter is the context, which has the meter.
    ///
    /// ```
    /// use go_template::{Func, Host, host::Plain};
    ///
    /// let depth = Func::<Plain>::with_context("depth", |host: &mut Plain, _unused: i64| host.meter().depth() as f64);
    /// assert_eq!(depth.params.len(), 1);
    /// ```
    pub fn with_context<A, R, F>(name: &'static str, function: F) -> Self
    where
        A: for<'a> Arguments<'a>,
        R: Output,
        F: ContextFunction<C, A, R> + for<'a> ContextFunction<C, <A as Arguments<'a>>::Output, R>,
    {
        Func::of::<A>(
            name,
            Box::new(move |context, args| {
                let args = <A as Arguments<'_>>::take(&mut Args::new(args, None))?;
                function.call(context, args).into_result()
            }),
        )
    }

    fn of<A: for<'a> Arguments<'a>>(name: &'static str, body: Box<super::Body<C>>) -> Self {
        let mut signature = Signature::default();
        A::declare(&mut signature);
        Func {
            name,
            params: signature.params,
            variadic: signature.variadic,
            body,
        }
    }
}

impl Signature {
    /// One more parameter.
    pub fn param(&mut self, param: Param) {
        self.params.push(param);
    }
}

impl<'a> Args<'a> {
    fn new(all: &'a [Value], meter: Option<&'a Meter>) -> Self {
        Args { all, taken: 0, meter }
    }

    fn mismatch(&self) -> CallError {
        let found = self
            .all
            .get(self.taken.saturating_sub(1))
            .map_or("nothing", Value::type_name);
        CallError::Text(format!("argument {}: unexpected {found}", self.taken))
    }
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a Value;

    fn next(&mut self) -> Option<&'a Value> {
        let value = self.all.get(self.taken);
        self.taken += 1;
        value
    }
}

impl<'a, T: Argument<'a>> Rest<'a, T> {
    /// The arguments in their type.
    pub fn iter(&self) -> impl Iterator<Item = T::Output> + use<'a, T> {
        let mut args = Args::new(self.values, None);
        std::iter::from_fn(move || T::take(&mut args))
    }
}

/// The types that are parts of a [`Value`].
macro_rules! arguments {
    ($($type:ty: $param:ident, $pattern:pat => $output:expr;)*) => {
        $(impl<'a> Argument<'a> for $type {
            type Output = $type;

            fn declare(signature: &mut Signature) {
                signature.param(Param::$param);
            }

            fn take(args: &mut Args<'a>) -> Option<$type> {
                match args.next()? {
                    $pattern => Some($output),
                    _ => None,
                }
            }
        })*
    };
}

arguments! {
    i64: Int, Value::Int(n) | Value::Int64(n) => *n;
    u32: Uint32, Value::Uint64(n) => *n as u32;
    f64: Float64, Value::Float64(n) => *n;
    bool: Bool, Value::Bool(b) => *b;
}

/// Arguments that are references to such parts.
macro_rules! references {
    ($($type:ty: $param:ident, $pattern:pat => $output:expr;)*) => {
        $(impl<'a> Argument<'a> for &$type {
            type Output = &'a $type;

            fn declare(signature: &mut Signature) {
                signature.param(Param::$param);
            }

            fn take(args: &mut Args<'a>) -> Option<&'a $type> {
                match args.next()? {
                    $pattern => Some($output),
                    #[allow(unreachable_patterns, reason = "anything is a value")]
                    _ => None,
                }
            }
        })*
    };
}

references! {
    Value: Any, value => value;
    Str: String, Value::String(text) => text;
    [u8]: String, Value::String(text) => text.as_bytes();
    Map: Map, Value::Map(map) => map;
    List: List, Value::List(list) => list;
}

impl<'a, T: Argument<'a>> Argument<'a> for Rest<'_, T> {
    type Output = Rest<'a, T>;

    fn declare(signature: &mut Signature) {
        let mut repeated = Signature::default();
        T::declare(&mut repeated);
        signature.variadic = repeated.params.pop();
    }

    fn take(args: &mut Args<'a>) -> Option<Rest<'a, T>> {
        let values = args.all.get(args.taken..)?;
        let mut rest = Args::new(values, None);
        // Callers other than the evaluator may pass any values.
        while rest.taken < values.len() {
            T::take(&mut rest)?;
        }
        Some(Rest {
            values,
            of: PhantomData,
        })
    }
}

impl<'a> Argument<'a> for Given<'_> {
    type Output = Given<'a>;

    fn declare(_: &mut Signature) {}

    fn take(args: &mut Args<'a>) -> Option<Given<'a>> {
        Some(Given(args.all))
    }
}

/// The meter of the execution. It is not a parameter of the template function.
impl<'a> Argument<'a> for &Meter {
    type Output = &'a Meter;

    fn declare(_: &mut Signature) {}

    fn take(args: &mut Args<'a>) -> Option<&'a Meter> {
        args.meter
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {
        $(
            impl<'a, $($name: Argument<'a>),*> Arguments<'a> for ($($name,)*) {
                type Output = ($($name::Output,)*);

                fn declare(_signature: &mut Signature) {
                    $($name::declare(_signature);)*
                }

                fn take(_args: &mut Args<'a>) -> Result<Self::Output, CallError> {
                    Ok(($($name::take(_args).ok_or_else(|| _args.mismatch())?,)*))
                }
            }

            #[allow(non_snake_case, reason = "an argument is named like its type")]
            impl<F, R, $($name),*> Function<($($name,)*), R> for F
            where
                F: Fn($($name),*) -> R + Send + Sync + 'static,
            {
                fn call(&self, ($($name,)*): ($($name,)*)) -> R {
                    self($($name),*)
                }
            }

            #[allow(non_snake_case, reason = "an argument is named like its type")]
            impl<F, C: ?Sized, R, $($name),*> ContextFunction<C, ($($name,)*), R> for F
            where
                F: Fn(&mut C, $($name),*) -> R + Send + Sync + 'static,
            {
                fn call(&self, context: &mut C, ($($name,)*): ($($name,)*)) -> R {
                    self(context, $($name),*)
                }
            }
        )*
    };
}

tuples! {
    ()
    (A1)
    (A1 A2)
    (A1 A2 A3)
    (A1 A2 A3 A4)
    (A1 A2 A3 A4 A5)
    (A1 A2 A3 A4 A5 A6)
    (A1 A2 A3 A4 A5 A6 A7)
}

impl Output for Value {
    fn into_result(self) -> Result<Value, CallError> {
        Ok(self)
    }
}

macro_rules! outputs {
    ($($type:ty => $value:expr;)*) => {
        $(impl Output for $type {
            fn into_result(self) -> Result<Value, CallError> {
                Ok($value(self))
            }
        })*
    };
}

outputs! {
    bool => Value::Bool;
    f64 => Value::Float64;
    Str => Value::String;
    &'static str => Value::string;
    String => Value::string;
    Vec<u8> => Value::string;
    List => Value::List;
    Map => Value::Map;
}

impl<T: Output, E: Into<CallError>> Output for Result<T, E> {
    fn into_result(self) -> Result<Value, CallError> {
        self.map_err(E::into)?.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Plain;

    #[test]
    fn parameters_come_from_the_signature() {
        let func: Func<Plain> = Func::new("f", |_: Given, _: &Meter, _: i64, _: &[u8], _: Rest<&Map>| true);
        assert_eq!(func.params, [Param::Int, Param::String]);
        assert_eq!(func.variadic, Some(Param::Map));
    }

    #[test]
    fn arguments_of_another_type_are_refused() {
        let func: Func<Plain> = Func::new("f", |count: i64, rest: Rest<&[u8]>| {
            Value::Int(count + rest.iter().map(<[u8]>::len).sum::<usize>() as i64)
        });
        let call = |args: &[Value]| (func.body)(&mut Plain::default(), args);
        let sum = call(&[Value::Int(1), Value::string("ab"), Value::string("c")]);
        assert!(matches!(sum, Ok(Value::Int(4))));
        for args in [&[][..], &[Value::string("a")], &[Value::Int(1), Value::Nil]] {
            assert!(call(args).is_err());
        }
    }
}
