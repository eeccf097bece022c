//! The declaration of lists of buffers.

/// Declares what an operation has after `ptlrpc_body`: one field for each buffer in order.
/// `, empty 2` says that two buffers follow which are always empty. Buffers in `[...]` may be
/// missing at the end of a message; such a field is none if its buffer is not there.
macro_rules! buffers {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)? {
            $($(#[$field_meta:meta])* $field:ident: $kind:ty $(, empty $gap:literal)?;)*
            $([$($(#[$last_meta:meta])* $last:ident: $last_kind:ty;)+])?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        pub struct $name $(<$life>)? {
            $($(#[$field_meta])* pub $field: $kind,)*
            $($($(#[$last_meta])* pub $last: Option<$last_kind>,)+)?
        }

        impl<'a> $crate::rpc::BufferList<'a> for $name $(<$life>)? {
            #[allow(unused_variables, unused_mut, reason = "a list may have no buffers")]
            fn parse_list(
                message: &$crate::message::Message<'a>,
                first: usize,
            ) -> Result<Self, $crate::rpc::RpcError> {
                let mut at = $crate::rpc::buffer::Cursor::new(message, first);
                $(let $field = at.required(stringify!($field))?; $(at.skip($gap);)?)*
                $($(let $last = at.optional(stringify!($last))?;)+)?
                Ok($name { $($field,)* $($($last,)+)? })
            }

            fn count(&self) -> usize {
                let fixed: &[usize] = &[$({
                    let _ = stringify!($field);
                    1 $(+ $gap)?
                },)*];
                let last: &[bool] = &[$($(self.$last.is_some(),)+)?];
                let last = last.iter().rposition(|&there| there).map_or(0, |index| index + 1);
                fixed.iter().sum::<usize>() + last
            }

            #[allow(unused_variables, unused_mut, unused_assignments,
                reason = "a list may have no buffers")]
            fn write_list(&self, to: &mut $crate::message::MessageBuilder<'_>) {
                let mut left = self.count();
                $(
                    to.buffer(|to| $crate::rpc::Buffer::write_buffer(&self.$field, to));
                    left -= 1;
                    $(
                        (0..$gap).for_each(|_| to.bytes(&[]));
                        left -= $gap;
                    )?
                )*
                $($(
                    if left > 0 {
                        to.buffer(|to| {
                            if let Some(value) = &self.$last {
                                $crate::rpc::Buffer::write_buffer(value, to);
                            }
                        });
                        left -= 1;
                    }
                )+)?
            }

            fn fields(&self) -> $crate::describe::Fields {
                vec![
                    $((
                        stringify!($field),
                        $crate::describe::Describe::describe(&self.$field),
                    ),)*
                    $($((
                        stringify!($last),
                        $crate::describe::Describe::describe(&self.$last),
                    ),)+)?
                ]
            }
        }
    };
}

buffers! {
    /// No buffers.
    pub struct Nothing {}
}
