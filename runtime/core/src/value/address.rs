//! Internet addresses, which are strings of the ABI.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Any, AnyView, Arg, FromAny, IntoAny, Mismatch, Schema, ToArg, TypeSchema};

#[cold]
fn not_one(text: &str, what: &str) -> Mismatch {
    Mismatch::value(format!("'{text}' is not {what}"))
}

macro_rules! address {
    ($($type:ident $key:literal $what:literal;)*) => {$(
        impl Schema for $type {
            const TYPE: TypeSchema = TypeSchema::new($key);
        }

        impl<'a> FromAny<'a> for $type {
            fn from_any(value: &'a AnyView<'a>) -> Result<Self, Mismatch> {
                let text = <&str>::from_any(value)?;
                text.parse().map_err(|_| not_one(text, $what))
            }
        }

        impl IntoAny for $type {
            fn into_any(self) -> Any {
                self.to_string().into_any()
            }
        }

        impl ToArg for $type {
            fn to_arg(&self) -> Arg<'_> {
                Arg::owned(self.into_any())
            }
        }
    )*};
}
// The keys are classes of Python's module, and its function that makes one of both.
address! {
    Ipv4Addr "ipaddress.IPv4Address" "an IPv4 address";
    Ipv6Addr "ipaddress.IPv6Address" "an IPv6 address";
    IpAddr "ipaddress.ip_address" "an IP address";
}
