//! The distribution of latencies as a picture (SVG): how many took how long, and how long the slowest took.

use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::prelude::{ChartBuilder, Color, DrawingArea, IntoDrawingArea, RGBColor, SVGBackend, WHITE};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{IntoFont, TextStyle};

use super::scale::{Decades, micros, share};
use crate::histogram::{Latencies, Summary};
use crate::units::{Grouped, counted};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Width and height in pixels.
const SIZE: (u32, u32) = (960, 680);
/// Height of the upper part.
const UPPER: u32 = 360;
/// Bars for each doubling of the latency.
const BARS_PER_DOUBLING: f64 = 8.0;

const BAR: RGBColor = RGBColor(0x3b, 0x6e, 0xa8);
const MARK: RGBColor = RGBColor(0xb4, 0x4a, 0x1c);
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
const INK: RGBColor = RGBColor(0x30, 0x30, 0x30);

/// The latencies as an SVG file: above a bar for each range of latencies, below the latency that a share of all messages
/// stays within. Both on logarithmic scales, because the slowest of a million are what such a picture is looked at for.
///
/// `title` is any text, `what` names what took so long; `None` when nothing was recorded.
pub fn svg(title: &str, what: &str, latencies: &Latencies) -> Option<String> {
    let points = Points::of(latencies)?;
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
    // Writing to a string cannot fail, and the ranges are not empty.
    draw(&root, (title, what), latencies, &points).expect("a picture in memory");
    drop(root);
    Some(text)
}

/// What is drawn, in microseconds.
struct Points {
    /// The lower edge of each bar and what it counts.
    bars: Vec<(f64, u64)>,
    /// One in so many is slower, and how long the fastest of those takes.
    slower: Vec<(f64, f64)>,
    min: f64,
    max: f64,
}

impl Points {
    fn of(latencies: &Latencies) -> Option<Self> {
        let summary = latencies.summary();
        if summary.count == 0 {
            return None;
        }
        let bar_of = |nanos: f64| (nanos.max(1.0).log2() * BARS_PER_DOUBLING).floor();
        let mut bars: Vec<(f64, u64)> = Vec::new();
        let (mut slower, mut seen) = (Vec::new(), 0_u64);
        for (low, high, count) in latencies.buckets() {
            let from = (bar_of(low as f64) / BARS_PER_DOUBLING).exp2() / 1e3;
            match bars.last_mut() {
                Some((last, counted)) if *last == from => *counted += count,
                _ => bars.push((from, count)),
            }
            let one_in = summary.count as f64 / (summary.count - seen) as f64;
            slower.push((one_in, (high.clamp(summary.min, summary.max)).max(1) as f64 / 1e3));
            seen += count;
        }
        let edge = |nanos: u64| nanos.max(1) as f64 / 1e3;
        if summary.above_range > 0 {
            // Not told apart: all are drawn with the slowest.
            bars.push(((bar_of(summary.max as f64) / BARS_PER_DOUBLING).exp2() / 1e3, summary.above_range));
        }
        slower.push((summary.count as f64, edge(summary.max)));
        Some(Self { bars, slower, min: edge(summary.min), max: edge(summary.max) })
    }
}

fn draw(root: &Area<'_>, (title, what): (&str, &str), latencies: &Latencies, points: &Points) -> Drawn {
    root.fill(&WHITE)?;
    let root = root.margin(14, 10, 10, 34);
    let summary = latencies.summary();
    let font = |size: u32| TextStyle::from(("sans-serif", size).into_font()).color(&INK);
    root.draw_text(title, &font(20), (8, 4))?;
    let line = format!(
        "{}: p50 {}, p99 {}, p99.9 {}, max {}",
        counted(summary.count, "round trip"),
        micros(summary.p50 as f64 / 1e3),
        micros(summary.p99 as f64 / 1e3),
        micros(summary.p99_9 as f64 / 1e3),
        micros(summary.max as f64 / 1e3),
    );
    root.draw_text(&line, &font(14), (8, 30))?;
    let (_, charts) = root.split_vertically(52);
    let (upper, lower) = charts.split_vertically(UPPER);
    draw_bars(&upper, what, &summary_marks(&summary), points)?;
    draw_slowest(&lower, what, summary.count, points)?;
    root.present()?;
    Ok(())
}

fn summary_marks(summary: &Summary) -> [(&'static str, f64); 4] {
    let at = |nanos: u64| nanos.max(1) as f64 / 1e3;
    [("p50", at(summary.p50)), ("p99", at(summary.p99)), ("p99.9", at(summary.p99_9)), ("max", at(summary.max))]
}

/// How many took how long.
fn draw_bars(area: &Area<'_>, what: &str, marks: &[(&str, f64)], points: &Points) -> Drawn {
    // Half a message is where a bar of one begins to be seen on a logarithmic scale.
    const FLOOR: f64 = 0.5;
    let width = (1.0 / BARS_PER_DOUBLING).exp2();
    let most = points.bars.iter().map(|&(_, count)| count).max().unwrap_or(1) as f64;
    let (low, high) = (points.bars[0].0 / width, points.max * width * width);
    let mut chart = ChartBuilder::on(area)
        .margin_top(54)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(Decades::micros(low, high), Decades::counts(FLOOR, most * 2.0))?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_desc(what)
        .y_desc("messages")
        .y_label_formatter(&|count| Grouped(count.round() as u64).to_string())
        .draw()?;
    chart.draw_series(
        points
            .bars
            .iter()
            .map(|&(from, count)| Rectangle::new([(from, FLOOR), (from * width, count as f64)], BAR.filled())),
    )?;
    let label = TextStyle::from(("sans-serif", 12).into_font()).color(&MARK).pos(Pos::new(HPos::Center, VPos::Bottom));
    chart.draw_series(marks.iter().map(|&(_, at)| PathElement::new([(at, FLOOR), (at, most * 2.0)], MARK)))?;
    let (mut last, mut level) = (f64::NEG_INFINITY, 0);
    for &(name, at) in marks {
        let (x, y) = chart.backend_coord(&(at, most * 2.0));
        let (left, top) = area.get_base_pixel();
        // Above the one before it where it would stand on that.
        level = if f64::from(x) >= last + 38.0 { 0 } else { level + 1 };
        area.draw_text(name, &label, (x - left, y - top - 2 - 13 * level))?;
        last = f64::from(x);
    }
    Ok(())
}

/// The latency that all but one in so many stay within.
fn draw_slowest(area: &Area<'_>, what: &str, count: u64, points: &Points) -> Drawn {
    let most = (count as f64).max(10.0);
    let mut chart = ChartBuilder::on(area)
        .margin_top(8)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(Decades::shares(most), Decades::micros(points.min / 1.2, points.max * 1.2))?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .axis_style(INK)
        .x_desc("share of the messages that took at most so long")
        .x_label_formatter(&|&one_in| share(one_in))
        .y_desc(what)
        .draw()?;
    let mut steps = Vec::with_capacity(points.slower.len() * 2);
    for pair in points.slower.windows(2) {
        steps.extend([pair[0], (pair[1].0, pair[0].1)]);
    }
    steps.extend(points.slower.last());
    chart.draw_series([PathElement::new(steps, BAR.stroke_width(2))])?;
    chart.draw_series(points.slower.last().map(|&last| Circle::new(last, 3, MARK.filled())))?;
    let label = TextStyle::from(("sans-serif", 12).into_font()).color(&MARK).pos(Pos::new(HPos::Right, VPos::Bottom));
    chart.draw_series(points.slower.last().map(|&last| Text::new("max", last, label)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinwire_core::time::Nanos;

    fn of(samples: impl IntoIterator<Item = u64>) -> Latencies {
        let mut all = Latencies::new();
        samples.into_iter().for_each(|nanos| all.record(Nanos::new(nanos)));
        all
    }

    #[test]
    fn the_picture_names_what_the_table_names() {
        let text = svg("echo", "round trip", &of((0..99_999).map(|n| 500 + n % 100).chain([8_000_000]))).unwrap();
        for part in ["<svg", "echo", "100,000 round trips: p50 549 ns", "max 8.00 ms", "99.9 %", "round trip", "</svg>"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn every_message_is_in_one_bar_and_the_slowest_ends_the_curve() {
        let all = of((1..=10_000).map(|n| n * 37));
        let points = Points::of(&all).unwrap();
        assert_eq!(points.bars.iter().map(|&(_, count)| count).sum::<u64>(), 10_000);
        assert!(points.bars.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(points.slower.last(), Some(&(10_000.0, 370.0)));
        assert!(points.slower.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
    }

    #[test]
    fn one_message_no_message_and_the_extremes_are_drawn_too() {
        assert!(svg("none", "round trip", &Latencies::new()).is_none());
        for samples in [vec![0], vec![700], vec![1, 3_600_000_000_000], vec![u64::MAX]] {
            let text = svg("few", "round trip", &of(samples)).unwrap();
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn a_title_cannot_break_the_file() {
        let text = svg("shm:///run/<a>&b", "round trip", &of([500])).unwrap();
        assert!(text.contains("shm:///run/&lt;a&gt;&amp;b"), "{text}");
    }
}
