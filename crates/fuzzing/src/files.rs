//! Targets for what file systems hold: attributes, old znodes, ACLs, identities.

use crate::Target;
use crate::structures::{round, split};
use ondisk::acl::{AclPhys, decode_aces, decode_posix, encode_aces, encode_posix, posix_text};
use ondisk::sa::{SaHeader, SaTables, ZPL_ATTRS};
use ondisk::znode::{Dirent, Znode, device_numbers};

pub(crate) const TARGETS: &[(&str, Target)] =
    &[("acl", acl), ("fuid", fuid), ("normalize", normal_form), ("sa", sa), ("znode", znode)];

fn acl(data: &[u8]) {
    if let Some(acl) = round(data, AclPhys::decode, AclPhys::encode) {
        let (endian, _) = split(data);
        let _ = acl.embedded_aces(endian);
    }
    let (endian, body) = split(data);
    for version in [0, 1, 2] {
        for count in [1, 2, 3, 6, u64::MAX] {
            let Ok(aces) = decode_aces(body, version, count, endian) else { continue };
            assert_eq!(aces.len() as u64, count);
            for ace in &aces {
                let _ = ace.who();
            }
            let again = encode_aces(&aces, version, endian);
            assert_eq!(decode_aces(&again, version, count, endian), Ok(aces));
        }
    }
    if let Ok(entries) = decode_posix(body) {
        assert_eq!(decode_posix(&encode_posix(&entries)).as_ref(), Ok(&entries));
        let _ = posix_text(&entries, &entries);
    }
}

fn fuid(data: &[u8]) {
    use ondisk::fuid::{Fuid, FuidTable};
    let Ok(table) = FuidTable::decode(data) else { return };
    for domain in 0..4 {
        let _ = table.resolve(Fuid::new(domain, 1000));
    }
    if let Ok(packed) = table.encode() {
        assert_eq!(FuidTable::decode(&packed), Ok(table));
    }
}

/// Names in every normal form, hashed and compared.
fn normal_form(data: &[u8]) {
    use ondisk::zap::{KeyHash, Match, ZapKey, normalize};
    let Some((flags, name)) = data.split_first() else { return };
    let name = name.get(..512).unwrap_or(name);
    for match_case in [false, true] {
        let once = normalize(name, u64::from(*flags), match_case);
        assert!(once.len() <= 64 * name.len(), "a normal form is not a bomb");
        let hash = KeyHash { salt: 1, flags: 0, norm_flags: u64::from(*flags) };
        let how = if match_case { Match::NormalizeKeepCase } else { Match::Normalize };
        let key = ZapKey::name(&hash, name, how);
        assert!(key.matches_name(name), "a name matches itself");
        let _ = key.matches_name(&once);
    }
}

/// The attributes of OpenZFS, and layouts with each of them alone and with all that fit.
fn tables() -> Option<SaTables> {
    let registry = ZPL_ATTRS.iter().enumerate().map(|(number, (name, length, _))| {
        (name.as_bytes(), (u64::from(*length) << 24) | number as u64)
    });
    let names: Vec<String> = (2..30u64).map(|number| number.to_string()).collect();
    let layouts = names.iter().enumerate().map(|(index, name)| {
        let all = (0..ZPL_ATTRS.len() as u64).filter(move |one| (*one * 7 + index as u64) % 5 < 3);
        (name.as_bytes(), all.collect::<Vec<u64>>())
    });
    SaTables::new(registry, layouts).ok()
}

fn sa(data: &[u8]) {
    let _ = SaHeader::decode(data);
    let Some(tables) = tables() else { return };
    if let Ok(set) = tables.read(data, None) {
        let _ = (set.get("ZPL_ATIME").and_then(|value| value.time()), set.u64("ZPL_MODE"));
    }
    if let (Ok(values), Ok(header)) = (tables.split(data), SaHeader::decode(data))
        && let Ok(packed) = tables.encode(header.layout, &values, header.endian)
    {
        assert_eq!(tables.split(&packed), Ok(values), "encoding changes the attributes");
    }
}

fn znode(data: &[u8]) {
    let Some(znode) = round(data, Znode::decode, Znode::encode) else { return };
    let _ = (znode.inline_symlink(), znode.scanstamp(), device_numbers(znode.rdev));
    let entry = Dirent::decode(znode.size);
    let _ = (entry.mode_type(), Dirent::decode(entry.encode()));
}
