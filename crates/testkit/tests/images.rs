//! The helpers themselves: an image keeps what was written, a seed repeats its damage.

use testkit::{Corruptor, Damage, Rng, SparseImage};

#[test]
fn image_agrees_with_a_plain_buffer() {
    let mut rng = Rng::new(7);
    let mut plain = vec![0u8; 100_000];
    let mut image = SparseImage::new(100_000);
    for _ in 0..300 {
        let len = rng.below(9000) as usize;
        let offset = rng.below(plain.len() as u64 - len as u64);
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        plain[offset as usize..offset as usize + len].copy_from_slice(&bytes);
        image.write_at(offset, &bytes).unwrap();
        if rng.below(50) == 0 {
            let cut = 60_000 + rng.below(40_000);
            plain.truncate(cut as usize);
            plain.resize(100_000, 0);
            image.truncate(cut);
            image.truncate(100_000);
        }
    }
    let mut back = vec![1; 100_000];
    image.read_at(0, &mut back).unwrap();
    assert!(back == plain);
    let file = tempfile::NamedTempFile::new().unwrap();
    image.save(file.path()).unwrap();
    assert!(std::fs::read(file.path()).unwrap() == plain);
    let again = SparseImage::load(file.path()).unwrap();
    again.read_at(0, &mut back).unwrap();
    assert!(back == plain);
    assert!(image.read_at(99_999, &mut [0, 0]).is_err());
}

#[test]
fn a_seed_repeats_its_damage_and_spares_what_it_must() {
    let mut image = SparseImage::new(16 << 20);
    let mut rng = Rng::new(1);
    for block in (0..image.len()).step_by(8192) {
        let mut bytes = [0; 4096];
        rng.fill(&mut bytes);
        image.write_at(block, &bytes).unwrap();
    }
    let (mut one, mut two) = (image.clone(), image.clone());
    let make = || Corruptor::new(42).spare_labels(16 << 20);
    let list = make().damage(&mut one, 40);
    assert_eq!(list, make().damage(&mut two, 40));
    let content = |image: &SparseImage, offset, len| {
        let mut bytes = vec![0; len];
        image.read_at(offset, &mut bytes).unwrap();
        bytes
    };
    assert!(content(&one, 0, 16 << 20) == content(&two, 0, 16 << 20));
    assert!(content(&one, 0, 16 << 20) != content(&image, 0, 16 << 20));
    assert!(content(&one, 0, 4 << 20) == content(&image, 0, 4 << 20));
    assert!(!list.iter().any(|damage| matches!(damage, Damage::Truncate { .. })));
}

#[test]
fn unpacks_what_the_project_ships() {
    for name in testkit::fixture_cases() {
        let pool = testkit::fixture(&name);
        assert!(!pool.name().is_empty());
        let listed = pool.manifest["vdev_files"].as_array().unwrap();
        assert_eq!(listed.len(), pool.images.len(), "{name}");
    }
}

#[test]
fn unpacks_the_corpus() {
    let pool = testkit::corpus("removed");
    assert_eq!(pool.name(), "shrunk");
    assert_eq!(pool.numbers, [0, 2]);
}
