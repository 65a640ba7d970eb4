//! What is kept of the windows, and how it is printed.

use std::fmt;

use spinwire_core::histogram::Histogram2;

use super::side::Contestant;

/// Single round trips, within 1 %.
pub type Trips = Histogram2;

/// All passes.
#[derive(Default)]
pub struct Table {
    /// Of the pass under way: a contestant's figure, and that of the bare line around it.
    windows: Vec<(Contestant, f64, f64)>,
    /// Of each pass: the ratios of transport and echo, and the medians of all three.
    passes: Vec<([f64; 2], [f64; 3])>,
    trips: [Option<Box<Trips>>; 3],
    kept: usize,
    all: usize,
    /// Bare windows, to know what is usual.
    bare: Vec<f64>,
}

impl Table {
    /// Whether the two cores were where they usually are, before and after.
    fn is_sound(&mut self, (before, after): (f64, f64)) -> bool {
        self.all += 1;
        self.bare.push(after);
        let usual = median(self.bare.clone());
        let agree = |a: f64, b: f64, within: f64| a.max(b) < a.min(b) * within;
        let sound = agree(before, after, 1.1) && agree(before, usual, 1.2);
        self.kept += usize::from(sound);
        sound
    }

    /// A window, in nanoseconds per round trip, with the bare ones around it.
    pub fn add(&mut self, contestant: Contestant, figure: f64, around: (f64, f64)) {
        if self.is_sound(around) {
            self.windows.push((contestant, figure, (around.0 + around.1) / 2.0));
        }
    }

    /// The single round trips of a window.
    pub fn add_trips(&mut self, contestant: Contestant, trips: &Trips, around: (f64, f64)) {
        if self.is_sound(around) {
            self.trips[contestant as usize].get_or_insert_with(|| Box::new(Trips::new())).merge(trips);
        }
    }

    pub fn end_pass(&mut self) {
        let of = |contestant: Contestant, figure: fn(&(Contestant, f64, f64)) -> f64| {
            median(self.windows.iter().filter(|window| window.0 == contestant).map(figure).collect())
        };
        let ratios = [Contestant::Transport, Contestant::Echo].map(|contestant| of(contestant, |w| w.1 / w.2));
        let bare = median(self.windows.iter().map(|window| window.2).collect());
        let figures = [bare, of(Contestant::Transport, |w| w.1), of(Contestant::Echo, |w| w.1)];
        self.windows.clear();
        if ratios.iter().all(|ratio| ratio.is_finite()) {
            self.passes.push((ratios, figures));
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} of {} windows kept, {} passes with a figure", self.kept, self.all, self.passes.len())?;
        writeln!(
            f,
            "{:<10} {:>8} {:>7} {:>15} {:>8} {:>8} {:>8}",
            "", "ns/trip", "ratio", "passes", "p50", "p99", "p99.9"
        )?;
        for (n, name) in ["bare", "transport", "echo"].into_iter().enumerate() {
            let figure = median(self.passes.iter().map(|(_, figures)| figures[n]).collect());
            write!(f, "{name:<10} {figure:>8.0}")?;
            match n.checked_sub(1) {
                Some(which) => {
                    let ratios: Vec<f64> = self.passes.iter().map(|(ratios, _)| ratios[which]).collect();
                    let (least, most) = ratios.iter().fold((f64::MAX, f64::MIN), |(a, b), &r| (a.min(r), b.max(r)));
                    write!(f, " {:>7.2} {:>15}", median(ratios), format!("{least:.2} - {most:.2}"))?;
                }
                None => write!(f, " {:>7} {:>15}", "1", "")?,
            }
            match &self.trips[n] {
                Some(trips) => {
                    let at = |part| trips.quantile(part, 1_000).get();
                    writeln!(f, " {:>8} {:>8} {:>8}", at(500), at(990), at(999))?;
                }
                None => writeln!(f)?,
            }
        }
        f.write_str("p50, p99 and p99.9 are of trips that were stamped one by one: a look at the clock is in each")
    }
}

/// NaN of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
