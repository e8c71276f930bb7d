//! What the explorations found, step by step: what waits on its way to the store, and arrives when
//! it is let through.

use super::*;
use crate::store::{Answered, Request};
use core::ops::Range;
use rt::Task;

const WINDOW: u64 = 4;

/// A machine's way to the store, on which creates at chosen places of the log are held up.
struct HeldStore {
    store: Arc<SimStore>,
    held: Mutex<BTreeMap<String, Vec<(Request, Answered)>>>,
}

impl HeldStore {
    fn new(world: &Arc<SimWorld>) -> Arc<Self> {
        Arc::new(Self { store: SimStore::new(world), held: Mutex::default() })
    }

    fn hold(&self, places: Range<u64>) {
        self.held.lock().extend(places.map(|place| (segment_name(place), Vec::new())));
    }

    /// What was held up arrives, and nothing more is held up there.
    fn release(&self, rt: &Rt, places: Range<u64>) {
        for place in places {
            let held = self.held.lock().remove(&segment_name(place)).expect("a place that is held");
            held.into_iter().for_each(|(create, answered)| self.store.submit(create, answered));
        }
        rt.sleep(Duration::from_secs(1));
    }
}

impl Store for HeldStore {
    fn submit(&self, request: Request, answered: Answered) {
        if let Request::Create { name, .. } = &request
            && let Some(held) = self.held.lock().get_mut(name)
        {
            return held.push((request, answered));
        }
        self.store.submit(request, answered);
    }
}

/// A disk with a writer that has flushed something.
struct Scene {
    lab: Arc<Lab>,
    way: Arc<HeldStore>,
    writer: Holder,
    /// Where the log ends.
    end: u64,
}

impl Scene {
    fn new(rt: &Rt) -> Self {
        let world = SimWorld::new(rt);
        make_disk(rt, &world, WINDOW);
        let (lab, way) = (Lab::new(rt, &world, None), HeldStore::new(&world));
        let writer = lab.take_over_by(way.clone(), way.store.clone()).expect("the only one");
        let mut scene = Self { lab, way, writer, end: 0 };
        assert!(scene.write(20, 1) && scene.lab.flush(&scene.writer));
        scene.end = scene.lab.end_of_log().0;
        scene
    }

    /// Writes as many sectors as fill a segment.
    fn write(&mut self, lba: usize, stamp: u64) -> bool {
        self.lab.put(&mut self.writer, lba, &[stamp; TARGET])
    }

    /// Another machine begins to take the disk over.
    fn begin(&self, way: &Arc<HeldStore>) -> Task<Option<Holder>> {
        let (lab, way) = (Arc::clone(&self.lab), Arc::clone(way));
        let begun = self.lab.rt.spawn("another", move || {
            let store = Arc::clone(&way.store);
            lab.take_over_by(way, store)
        });
        self.lab.rt.sleep(Duration::from_secs(1));
        begun.expect("a thread")
    }

    /// Two segments of the writer are held up, and a takeover's seal of the first of their places:
    /// the other seals stand, and the second segment meets one. Returns what the disk was before.
    fn overtaken(&mut self, way: &Arc<HeldStore>) -> (Content, Task<Option<Holder>>) {
        let (before, epoch) = (self.writer.content, self.writer.epoch);
        self.way.hold(self.end..self.end + 2);
        assert!(self.write(0, 2) && self.write(4, 3));
        self.lab.rt.sleep(Duration::from_secs(60));
        assert!(!self.lab.is_fenced(&self.writer), "nothing was done but to wait");
        way.hold(self.end..self.end + 1);
        let begun = self.begin(way);
        assert!(self.lab.look(&self.writer), "it does not know yet");
        self.way.release(&self.lab.rt, self.end + 1..self.end + 2);
        let flushed = self.writer.device.flush().expect_err("fenced");
        assert_eq!(flushed.kind, ErrorKind::Fenced { by: epoch + 1 });
        assert!(!self.lab.look(&self.writer));
        // By the log alone it would still be the writer.
        assert_eq!(self.lab.end_of_log(), (self.end, epoch));
        (before, begun)
    }

    /// A writer is the present one, and the disk is this.
    fn has(&self, writer: &Holder, content: &Content) {
        assert_eq!(writer.content, *content);
        assert!(self.lab.look(writer) && self.lab.flush(writer));
    }
}

/// Seeds 200800 and 400973 of the exploration. The segment before the seal counts, though its
/// writer is fenced: no flush of it returned, and the next writer has it.
#[test]
fn a_seal_overtakes_another_and_then_the_segment_arrives() {
    Rt::simulate(1, |rt| {
        let mut scene = Scene::new(rt);
        let (end, way) = (scene.end, HeldStore::new(&scene.lab.world));
        let (mut content, begun) = scene.overtaken(&way);
        scene.way.release(rt, end..end + 1);
        assert_eq!(scene.lab.end_of_log(), (end + 2 * WINDOW, scene.writer.epoch + 1));
        way.release(rt, end..end + 1);
        content[..4].fill(2);
        scene.has(&begun.join().expect("no panic").expect("the writer"), &content);
    });
}

#[test]
fn a_seal_overtakes_another_which_arrives_before_the_segment() {
    Rt::simulate(2, |rt| {
        let mut scene = Scene::new(rt);
        let (end, way) = (scene.end, HeldStore::new(&scene.lab.world));
        let (content, begun) = scene.overtaken(&way);
        way.release(rt, end..end + 1);
        scene.way.release(rt, end..end + 1);
        scene.has(&begun.join().expect("no panic").expect("the writer"), &content);
    });
}

/// The writer is fenced for good, and has no successor until there is a third machine.
#[test]
fn a_seal_overtakes_another_which_is_lost() {
    Rt::simulate(3, |rt| {
        let mut scene = Scene::new(rt);
        let (end, way) = (scene.end, HeldStore::new(&scene.lab.world));
        let (content, begun) = scene.overtaken(&way);
        rt.sleep(Duration::from_secs(3600));
        assert_eq!(scene.lab.end_of_log(), (end, scene.writer.epoch));
        assert!(!scene.write(8, 4));
        let third = scene.lab.take_over().expect("the writer");
        assert_eq!(third.epoch, scene.writer.epoch + 2);
        scene.way.release(rt, end..end + 1);
        way.release(rt, end..end + 1);
        assert!(begun.join().expect("no panic").is_none(), "it began before the third");
        scene.has(&third, &content);
    });
}

/// A takeover that began before a writer ended: its seal arrives behind the clean one, and the
/// present writer is fenced, although it has no successor.
#[test]
fn a_seal_arrives_behind_a_clean_one() {
    Rt::simulate(4, |rt| {
        let mut scene = Scene::new(rt);
        let (end, way) = (scene.end, HeldStore::new(&scene.lab.world));
        way.hold(end..end + WINDOW);
        let begun = scene.begin(&way);
        assert!(scene.write(0, 2) && scene.lab.flush(&scene.writer));
        let (content, epoch) = (scene.writer.content, scene.writer.epoch);
        let next = HeldStore::new(&scene.lab.world);
        // Its segment is at `end`, its close behind it, and then the clean seal.
        drop(scene.writer);
        scene.writer = scene.lab.take_over_by(next.clone(), next.store.clone()).expect("a writer");
        assert_eq!(scene.lab.end_of_log(), (end + 3, epoch + 2));
        assert!(!scene.lab.is_fenced(&scene.writer));
        way.release(rt, end..end + WINDOW);
        assert!(begun.join().expect("no panic").is_none(), "it began before the present one");
        assert!(!(scene.write(4, 3) && scene.lab.flush(&scene.writer)));
        let third = scene.lab.take_over().expect("the writer");
        scene.has(&third, &content);
    });
}
