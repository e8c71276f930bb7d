//! Ciphers against OpenSSL's answers, keys against what OpenZFS wrapped.
#![allow(clippy::unwrap_used, reason = "a test may stop where it likes")]

use codec::crypto::{
    AuthError, BlockKey, MasterKey, Suite, WrappedKey, hkdf_sha512, hmac_sha512, mac_eq,
    open_in_place, pbkdf2_sha1, seal_in_place, sha512,
};
use proptest::prelude::*;

const KEYS: &str = include_str!("data/crypto/keys.txt");

fn hex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
}

fn hex_array<const N: usize>(text: &str) -> [u8; N] {
    hex(text).try_into().unwrap()
}

/// The wrapped keys of `data/crypto/keys.txt`, each with its wrapping key.
fn stored_keys() -> Vec<(WrappedKey, [u8; 32])> {
    let lines = KEYS.lines().filter(|l| !l.starts_with('#'));
    let keys: Vec<_> = lines
        .map(|line| {
            let f: Vec<&str> = line.split(' ').collect();
            let key = WrappedKey {
                suite: Suite::ALL.into_iter().find(|s| s.name() == f[0]).unwrap(),
                version: f[1].parse().unwrap(),
                guid: u64::from_str_radix(f[2], 16).unwrap(),
                iv: hex_array(f[3]),
                mac: hex_array(f[4]),
                master: hex_array(f[5]),
                hmac: hex_array(f[6]),
            };
            (key, hex_array(f[7]))
        })
        .collect();
    assert_eq!(keys.len(), 5);
    keys
}

/// Key 0, 1, 2 .., IV 100, 101 .., 50 bytes of associated data and 45 of text, by OpenSSL.
#[test]
fn ciphers_agree_with_openssl() {
    let cases = [
        (
            Suite::Aes128Ccm,
            "a04e9934a138d1d6e8c7fca4e99ac6230e4eea7609ce685784e60bc9dfaebf2e\
             f446ff65c228b8b8cc4bad05bf28dd55ec400cf2466ee9f7a28327e5d3",
        ),
        (
            Suite::Aes128Gcm,
            "1a6540b0c72192cba301115dd291498540ff067a1e3a47fb5cc0072a7839252a\
             5a1bbcd1771b2d809247016bb93428cf8ab1e6cf013ad1d552927173d7",
        ),
        (
            Suite::Aes192Ccm,
            "5366ef61637e59525f0f8b9f9943acb90bc2256bdf283583d5f05a40f6c49efd\
             b1ce657183fa8efb0b3bb2b25cab5d9cbd38cb043fb5036002298dab86",
        ),
        (
            Suite::Aes192Gcm,
            "e96fb5694e8c2409ebeea44caea9f9d7ad2e204f761aeb4e29ecfe7772a54a99\
             bab3e96aa4164ea1668c459c1843cc7585597e199666449d97dce1c7b6",
        ),
        (
            Suite::Aes256Ccm,
            "31e7a66e6a8ef2c22a8ed87dc53aef4cd385bb3d177535b8be2b7ce9052f9d50\
             8d59c63f7494014ce9ccef67d5e582846b1d4d20fe5575fc47e2d6d29e",
        ),
        (
            Suite::Aes256Gcm,
            "481cd07365ca7caf065d19a58e3e089432b5788f07ff69d30f7e1af53f687791\
             740eae35b0119115e5ec5e12c9cff10b83fd4cae77858d87fd12a83c10",
        ),
    ];
    let key: Vec<u8> = (0..32).collect();
    let iv: [u8; 12] = std::array::from_fn(|i| 100 + i as u8);
    let aad: Vec<u8> = (0..50).collect();
    let text: Vec<u8> = (0..45_usize).map(|i| (i * 7) as u8).collect();
    for (suite, expected) in cases {
        let expected = hex(expected);
        let key = &key[..suite.key_len()];
        let mut buf = text.clone();
        let mac = seal_in_place(suite, key, &iv, &aad, &mut buf).unwrap();
        assert_eq!((buf.as_slice(), mac.as_slice()), expected.split_at(45), "{}", suite.name());
        open_in_place(suite, key, &iv, &aad, &mut buf, &mac).unwrap();
        assert_eq!(buf, text, "{}", suite.name());
    }
}

#[test]
fn hkdf_agrees_with_openssl() {
    let master: Vec<u8> = (0..32).collect();
    for expected in [
        "1ca803144443f78f20b24ddcc2c4f0f6",
        "66c80de02deed16bb61c09b56ef1eb500fabf15f795d7982",
        "a4411493051afb9c0d32852302957895455b2a152a3e2bc01c26dbc8395ef716",
    ] {
        let expected = hex(expected);
        let mut out = vec![0; expected.len()];
        hkdf_sha512(&master[..expected.len()], &[9, 8, 7, 6, 5, 4, 3, 2], &mut out);
        assert_eq!(out, expected);
    }
}

/// RFC 4231, cases 2 (short key) and 6 (key longer than the hash's block).
#[test]
fn hmac_agrees_with_the_rfc() {
    let mac = hmac_sha512(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
    assert!(mac_eq(&mac, &hex("164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554")));
    let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
    let mac = hmac_sha512(&[0xaa; 131], &[text]);
    assert!(mac_eq(&mac, &hex("80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352")));
    let digest = sha512([b"a".as_slice(), b"bc"]);
    assert!(mac_eq(&digest, &hex("ddaf35a193617abacc417349ae204131")));
}

#[test]
fn macs_are_compared_as_prefixes() {
    assert!(mac_eq(&[1, 2, 3], &[1, 2]));
    assert!(!mac_eq(&[1, 2, 3], &[1, 3]));
    assert!(!mac_eq(&[1, 2], &[1, 2, 3]));
    assert!(!mac_eq(&[1, 2], &[]));
}

/// The passphrase of the corpus pool's dataset, with the salt and iterations stored there.
#[test]
fn a_passphrase_gives_the_wrapping_key_openzfs_used() {
    let (wrapped, wrapping) = stored_keys().remove(0);
    let passphrase = b"changed pass phrase zinc-visible-1/crypt";
    let key = pbkdf2_sha1(passphrase, 1_930_134_812_606_983_122, 150_000);
    assert_eq!(*key, wrapping);
    assert!(wrapped.unwrap(&key).is_ok());
}

#[test]
fn wrapped_keys_open_and_wrap_to_the_same_bytes() {
    for (wrapped, wrapping) in stored_keys() {
        let keys = wrapped.unwrap(&wrapping).unwrap();
        assert_eq!((keys.suite(), keys.guid()), (wrapped.suite, wrapped.guid));
        assert_eq!(keys.wrap(&wrapping, wrapped.iv), Ok(wrapped), "{keys:?}");
    }
}

#[test]
fn a_wrapped_key_is_bound_to_all_it_says() {
    let (wrapped, mut wrapping) = stored_keys().remove(1);
    let other: [fn(&mut WrappedKey); 6] = [
        |k| k.guid += 1,
        |k| k.version = 0,
        |k| k.suite = Suite::Aes192Ccm,
        |k| k.iv[0] ^= 1,
        |k| k.master[0] ^= 1,
        |k| k.hmac[63] ^= 1,
    ];
    for change in other {
        let mut changed = wrapped;
        change(&mut changed);
        assert_eq!(changed.unwrap(&wrapping).err(), Some(AuthError::Mismatch), "{changed:?}");
    }
    wrapping[31] ^= 1;
    assert_eq!(wrapped.unwrap(&wrapping).err(), Some(AuthError::Mismatch));
}

/// Version 0 binds the guid alone.
#[test]
fn keys_of_version_0_wrap_with_the_guid_alone() {
    let keys = MasterKey::new(Suite::Aes128Gcm, 7, 0, &[1; 16], &[2; 64]).unwrap();
    let wrapped = keys.wrap(&[3; 32], [4; 12]).unwrap();
    assert!(wrapped.unwrap(&[3; 32]).is_ok());
    assert!(WrappedKey { suite: Suite::Aes128Gcm, guid: 8, ..wrapped }.unwrap(&[3; 32]).is_err());
    let mut plain = [[1_u8; 16].as_slice(), &[2; 64]].concat();
    let aad = 7_u64.to_le_bytes();
    let mac = seal_in_place(Suite::Aes256Gcm, &[3; 32], &[4; 12], &aad, &mut plain).unwrap();
    assert_eq!((mac, plain[..16].to_vec()), (wrapped.mac, wrapped.master[..16].to_vec()));
}

#[test]
fn block_keys_are_the_expanded_master_key_and_are_kept() {
    let keys = MasterKey::new(Suite::Aes192Gcm, 1, 1, &[5; 24], &[6; 64]).unwrap();
    let first = keys.block_key([0; 8]).unwrap();
    for salt in 0..100_u64 {
        let salt = salt.to_le_bytes();
        let key = keys.block_key(salt).unwrap();
        let mut expanded = [0; 24];
        hkdf_sha512(&[5; 24], &salt, &mut expanded);
        let mut ours = [9; 40];
        let mac = key.seal(&[1; 12], b"x", &mut ours).unwrap();
        let other = BlockKey::new(Suite::Aes192Gcm, &expanded).unwrap();
        other.open(&[1; 12], b"x", &mut ours, &mac).unwrap();
        assert_eq!(ours, [9; 40]);
        // The first one is asked for again and again, so it stays.
        assert!(std::sync::Arc::ptr_eq(&first, &keys.block_key([0; 8]).unwrap()));
    }
}

#[test]
fn lengths_no_cipher_takes_are_errors() {
    assert_eq!(BlockKey::new(Suite::Aes256Gcm, &[0; 31]).err(), Some(AuthError::Length));
    assert!(MasterKey::new(Suite::Aes256Gcm, 0, 1, &[0; 16], &[0; 64]).is_err());
    assert!(MasterKey::new(Suite::Aes256Gcm, 0, 1, &[0; 32], &[0; 63]).is_err());
    let mut largest = vec![0; 16 << 20];
    let ccm = BlockKey::new(Suite::Aes256Ccm, &[0; 32]).unwrap();
    assert_eq!(ccm.seal(&[0; 12], &[], &mut largest), Err(AuthError::Length));
}

#[test]
fn numbers_and_names_go_both_ways() {
    for (suite, number) in Suite::ALL.into_iter().zip(3..) {
        assert_eq!((suite.number(), Suite::from_number(number)), (number, Some(suite)));
    }
    for number in [0, 1, 2, 9, u64::MAX] {
        assert_eq!(Suite::from_number(number), None);
    }
}

#[test]
fn dedup_takes_salt_and_iv_from_the_data() {
    let keys = MasterKey::new(Suite::Aes256Gcm, 1, 1, &[5; 32], &[6; 64]).unwrap();
    let (salt, iv) = keys.dedup_salt_iv(b"block");
    let mac = hmac_sha512(&[6; 64], &[b"block"]);
    assert_eq!([salt.as_slice(), &iv].concat(), mac[..20]);
    assert!(keys.authenticates(b"block", mac[..16].try_into().unwrap()));
    assert!(!keys.authenticates(b"blocc", mac[..16].try_into().unwrap()));
}

#[test]
fn secrets_do_not_show_in_debug_output() {
    let keys = MasterKey::new(Suite::Aes256Gcm, 0x77, 1, &[0xab; 32], &[0xcd; 64]).unwrap();
    assert_eq!(format!("{keys:?}"), "MasterKey(aes-256-gcm, guid 0x77)");
    assert_eq!(format!("{:?}", keys.block_key([0; 8]).unwrap()), "BlockKey(aes-256-gcm)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_change_is_noticed(
        suite in prop::sample::select(Suite::ALL.to_vec()),
        text in prop::collection::vec(any::<u8>(), 0..300),
        aad in prop::collection::vec(any::<u8>(), 0..100),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let key = vec![7; suite.key_len()];
        let mut sealed = text.clone();
        let mac = seal_in_place(suite, &key, &[8; 12], &aad, &mut sealed).unwrap();
        // One bit of ciphertext, associated data and MAC in a row.
        let mut parts = [sealed.clone(), aad.clone(), mac.to_vec()].concat();
        let at = at.index(parts.len());
        parts[at] ^= 1 << bit;
        let (buf, rest) = parts.split_at_mut(text.len());
        let (changed_aad, changed_mac) = rest.split_at(aad.len());
        let changed_mac = <&[u8; 16]>::try_from(changed_mac).unwrap();
        let opened = open_in_place(suite, &key, &[8; 12], changed_aad, buf, changed_mac);
        prop_assert_eq!(opened, Err(AuthError::Mismatch));
        open_in_place(suite, &key, &[8; 12], &aad, &mut sealed, &mac).unwrap();
        prop_assert_eq!(sealed, text);
    }
}
