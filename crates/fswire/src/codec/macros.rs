//! Declarations of structures, flags and open enumerations.

/// Declares a structure of fixed size once: its fields with their types in the order of the wire,
/// how they are read, written and described.
///
/// `[208]` is the size in bytes, checked when compiled; `lead 8` are reserved bytes before the
/// first field, `pad 4` reserved bytes after a field. Reserved bytes are ignored and written as 0.
/// `=> hex`, `=> octal`, `=> or_none` say how a number is shown.
macro_rules! wire_struct {
    (
        $(#[$meta:meta])*
        pub struct $name:ident [$size:literal $(, lead $lead:literal)?] {
            $($(#[$field_meta:meta])* $field:ident: $kind:ty
                $(=> $view:ident)? $(, pad $pad:literal)?;)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $kind,)+
        }

        const _: () = assert!(<$name as $crate::codec::Wire>::SIZE == $size);

        impl $crate::codec::Wire for $name {
            const SIZE: usize =
                0 $(+ $lead)? $(+ <$kind as $crate::codec::Wire>::SIZE $(+ $pad)?)+;

            #[inline]
            fn read(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<$name, $crate::codec::Short> {
                $(from.skip($lead)?;)?
                $(let $field = from.value()?; $(from.skip($pad)?;)?)+
                Ok($name { $($field,)+ })
            }

            #[inline]
            fn write_to(&self, to: &mut $crate::codec::SliceWriter<'_>) {
                $(to.zeros($lead);)?
                $(to.put(&self.$field); $(to.zeros($pad);)?)+
            }
        }

        impl $crate::describe::Describe for $name {
            fn describe(&self) -> $crate::describe::Value {
                $crate::describe::Value::Fields(vec![$((
                    stringify!($field),
                    $crate::describe::Describe::describe(&self.$field)$(.$view())?,
                ),)+])
            }
        }
    };
}

/// Declares a set of flags. Bits without a name are kept.
macro_rules! wire_flags {
    (
        $(#[$($meta:tt)+])*
        pub struct $name:ident: $number:ty {
            $($(#[$($flag_meta:tt)+])* $flag:ident = $value:expr;)+
        }
    ) => {
        bitflags::bitflags! {
            $(#[$($meta)+])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
            pub struct $name: $number {
                $(
                    $(#[$($flag_meta)+])*
                    #[doc = concat!("(bit `", stringify!($value), "`)")]
                    const $flag = $value;
                )+
                const _ = !0;
            }
        }

        impl $name {
            /// The bits that no name stands for.
            pub const fn unknown(self) -> $number {
                self.bits() & !(0 $(| $value)+)
            }
        }

        impl $crate::codec::Wire for $name {
            const SIZE: usize = size_of::<$number>();

            #[inline]
            fn read(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<$name, $crate::codec::Short> {
                from.value().map($name::from_bits_retain)
            }

            #[inline]
            fn write_to(&self, to: &mut $crate::codec::SliceWriter<'_>) {
                to.put(&self.bits());
            }
        }

        impl core::fmt::Display for $name {
            /// The names, joined by `|`, then what has no name in hexadecimal; `0` for none.
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut first = true;
                let mut sep = |f: &mut core::fmt::Formatter<'_>| {
                    if core::mem::take(&mut first) { Ok(()) } else { f.write_str("|") }
                };
                $(
                    if self.contains($name::$flag) {
                        sep(f)?;
                        f.write_str(stringify!($flag))?;
                    }
                )+
                if self.unknown() != 0 || self.is_empty() {
                    sep(f)?;
                    match self.unknown() {
                        0 => f.write_str("0")?,
                        unknown => write!(f, "{unknown:#x}")?,
                    }
                }
                Ok(())
            }
        }

        impl $crate::describe::Describe for $name {
            fn describe(&self) -> $crate::describe::Value {
                $crate::describe::Value::text(self)
            }
        }
    };
}

/// Declares an open enumeration: a number of which some values have a name.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub struct $name:ident: $number:ty {
            $($(#[$value_meta:meta])* $constant:ident = $value:expr, $text:literal;)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
        pub struct $name(pub $number);

        impl $name {
            $(
                $(#[$value_meta])*
                #[doc = concat!("(number `", stringify!($value), "`)")]
                pub const $constant: $name = $name($value);
            )+

            /// All values with a name.
            pub const ALL: &[$name] = &[$($name::$constant,)+];

            /// The name of the value, if it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $($name::$constant => Some($text),)+
                    _ => None,
                }
            }
        }

        impl $crate::codec::Wire for $name {
            const SIZE: usize = size_of::<$number>();

            #[inline]
            fn read(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<$name, $crate::codec::Short> {
                from.value().map($name)
            }

            #[inline]
            fn write_to(&self, to: &mut $crate::codec::SliceWriter<'_>) {
                to.put(&self.0);
            }
        }

        impl core::fmt::Display for $name {
            /// The name, or the number in hexadecimal.
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }

        impl $crate::describe::Describe for $name {
            fn describe(&self) -> $crate::describe::Value {
                $crate::describe::Value::text(self)
            }
        }
    };
}
