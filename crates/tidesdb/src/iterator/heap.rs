//! A binary heap of numbers whose order only their owner knows: of sources, or of sorted runs.

/// The numbers of what is not exhausted, as a heap with the first of them at its root. The owner
/// restores the order with [`NumberHeap::sift_down`] after what a number stands for has moved on.
pub(crate) trait NumberHeap {
    /// The numbers, each below its parent.
    fn numbers(&self) -> &[usize];

    fn swap(&mut self, one: usize, other: usize);

    /// Whether what number `a` stands for comes before what `b` stands for.
    fn before(&self, a: usize, b: usize) -> bool;

    /// The place of the child that comes first.
    #[inline]
    fn smaller_child(&self, at: usize) -> Option<usize> {
        let numbers = self.numbers();
        let (left, right) = (2 * at + 1, 2 * at + 2);
        if left >= numbers.len() {
            return None;
        }
        let right_first = right < numbers.len() && self.before(numbers[right], numbers[left]);
        Some(if right_first { right } else { left })
    }

    /// Moves the number at a place down until its children come behind it.
    #[inline]
    fn sift_down(&mut self, mut at: usize) {
        while let Some(child) = self.smaller_child(at) {
            let numbers = self.numbers();
            if self.before(numbers[at], numbers[child]) {
                return;
            }
            self.swap(at, child);
            at = child;
        }
    }

    /// Makes a heap of numbers in any order.
    fn make_heap(&mut self) {
        for at in (0..self.numbers().len() / 2).rev() {
            self.sift_down(at);
        }
    }
}
