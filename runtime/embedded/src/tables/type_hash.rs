//! The hash of type keys: libstdc++'s `std::hash<std::string_view>` on 64-bit targets
//! (MurmurHash64A with its own seed). Structural hashes depend on it, so its values are part of the
//! ABI.

const SEED: u64 = 0xc70f_6907;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;

/// Hash of a type key.
pub(super) fn type_key_hash(key: &[u8]) -> u64 {
    let mix = |value: u64| value ^ (value >> 47);
    let mut hash = SEED ^ (key.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, tail) = key.as_chunks::<8>();
    for word in words {
        let word = mix(u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
        hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    mix(mix(hash).wrapping_mul(MULTIPLIER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_stock_library() {
        for (key, hash) in [
            ("None", 18116513903021958570),
            ("int", 12597418120160561823),
            ("DataType", 5733058170336282203),
            ("TVMFFIByteArray*", 3625853235450229161),
            ("ffi.Object", 3720555700325843206),
            ("ffi.Tensor", 11583287384690953408),
            ("ffi.OpaquePyObject", 12503576646394787749),
            ("ffi.VisitInterrupt", 14839700379727874159),
        ] {
            assert_eq!(type_key_hash(key.as_bytes()), hash, "{key}");
        }
    }
}
