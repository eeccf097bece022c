//! Drawings as pictures of pixels, in the colours of the light view.

use tiny_skia::{
    Color, FillRule, LineCap, LineJoin, Paint, PathBuilder, Pixmap, Rect as Area, Stroke,
    StrokeDash, Transform,
};

use crate::drawing::{Anchor, Dashes, Direction, Drawing, Pen, Rect, Shape, Text};
use crate::font::{Font, Outline, Weight};
use crate::palette::{LIGHT, Tone};

/// A drawing as a PNG of `width` pixels.
///
/// # Errors
/// When a picture of this size cannot be made.
pub(crate) fn png(drawing: &Drawing, width: u32) -> Result<Vec<u8>, String> {
    let scale = f64::from(width) / drawing.width;
    let height = (drawing.height * scale).round() as u32;
    let mut picture = Picture {
        pixels: Pixmap::new(width, height).ok_or(format!("a picture of {width} x {height}"))?,
        scale: Transform::from_scale(scale as f32, scale as f32),
        fonts: [Font::new(Weight::Regular), Font::new(Weight::Medium)],
    };
    picture.pixels.fill(colour(Tone::Paper, 1.0));
    drawing.shapes.iter().for_each(|shape| picture.draw(shape));
    picture.pixels.encode_png().map_err(|error| error.to_string())
}

struct Picture {
    pixels: Pixmap,
    scale: Transform,
    /// Regular and medium.
    fonts: [Font; 2],
}

fn colour(tone: Tone, opacity: f64) -> Color {
    let (red, green, blue) = LIGHT.of(tone);
    Color::from_rgba8(red, green, blue, (opacity * 255.0).round() as u8)
}

fn paint(tone: Tone, opacity: f64) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color(colour(tone, opacity));
    paint
}

impl Picture {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Path { points, pen } => self.path(points, pen),
            Shape::Rect(rect) => self.rect(rect),
            Shape::Sign { points, tone, .. } => {
                let mut path = PathBuilder::new();
                trace(&mut path, points);
                path.close();
                self.fill(path, &paint(*tone, 1.0), self.scale);
            }
            Shape::Dot { at: (x, y), radius, tone, .. } => {
                let mut path = PathBuilder::new();
                path.push_circle(*x as f32, *y as f32, *radius as f32);
                self.fill(path, &paint(*tone, 1.0), self.scale);
            }
            Shape::Text(text) => self.text(text),
        }
    }

    fn fill(&mut self, path: PathBuilder, paint: &Paint<'_>, transform: Transform) {
        if let Some(path) = path.finish() {
            self.pixels.fill_path(&path, paint, FillRule::Winding, transform, None);
        }
    }

    fn stroke(&mut self, path: PathBuilder, pen: &Pen) {
        let Some(path) = path.finish() else { return };
        let stroke = Stroke {
            width: pen.width as f32,
            line_join: LineJoin::Round,
            line_cap: match pen.dashes {
                Dashes::Dots => LineCap::Round,
                Dashes::None | Dashes::Long => LineCap::Butt,
            },
            dash: pen
                .dashes
                .lengths()
                .and_then(|(dash, gap)| StrokeDash::new(vec![dash, gap], 0.0)),
            ..Stroke::default()
        };
        let paint = paint(pen.tone, pen.opacity);
        self.pixels.stroke_path(&path, &paint, &stroke, self.scale, None);
    }

    fn path(&mut self, points: &[(f64, f64)], pen: &Pen) {
        let mut path = PathBuilder::new();
        trace(&mut path, points);
        self.stroke(path, pen);
    }

    fn rect(&mut self, rect: &Rect) {
        let ((x, y), (width, height)) = (rect.at, rect.size);
        let area = Area::from_xywh(x as f32, y as f32, width as f32, height as f32);
        let Some(area) = area else { return };
        if let Some((tone, opacity)) = rect.fill {
            self.pixels.fill_rect(area, &paint(tone, opacity), self.scale, None);
        }
        if let Some(pen) = &rect.edge {
            let mut path = PathBuilder::new();
            path.push_rect(area);
            self.stroke(path, pen);
        }
    }

    fn text(&mut self, text: &Text) {
        let font = &self.fonts[usize::from(text.weight == Weight::Medium)];
        let mut path = PathBuilder::new();
        font.outline(&text.text, &mut |part| match part {
            Outline::Move((x, y)) => path.move_to(x, y),
            Outline::Line((x, y)) => path.line_to(x, y),
            Outline::Quad((x1, y1), (x, y)) => path.quad_to(x1, y1, x, y),
            Outline::Cubic((x1, y1), (x2, y2), (x, y)) => path.cubic_to(x1, y1, x2, y2, x, y),
            Outline::Close => path.close(),
        });
        let before = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => font.width(&text.text, 1.0) / 2.0,
            Anchor::End => font.width(&text.text, 1.0),
        };
        // Outlines have a size of 1, and y upwards.
        let size = text.size as f32;
        let turn = match text.direction {
            Direction::Right => Transform::identity(),
            Direction::Up => Transform::from_rotate(-90.0),
        };
        let transform = Transform::from_translate(-before as f32, 0.0)
            .post_scale(size, -size)
            .post_concat(turn)
            .post_translate(text.at.0 as f32, text.at.1 as f32)
            .post_concat(self.scale);
        self.fill(path, &paint(text.tone, 1.0), transform);
    }
}

fn trace(path: &mut PathBuilder, points: &[(f64, f64)]) {
    for (index, (x, y)) in points.iter().enumerate() {
        match index {
            0 => path.move_to(*x as f32, *y as f32),
            _ => path.line_to(*x as f32, *y as f32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::SLIDE;

    fn pixels(shapes: Vec<Shape>) -> Pixmap {
        let (width, height) = SLIDE;
        let drawing = Drawing { title: String::new(), width, height, shapes };
        let bytes = png(&drawing, 1920).expect("a picture");
        Pixmap::decode_png(&bytes).expect("a PNG")
    }

    #[test]
    fn shapes_are_where_the_drawing_has_them() {
        let picture = pixels(vec![
            Shape::Path {
                points: vec![(0.0, 100.0), (960.0, 100.0)],
                pen: Pen::new(Tone::Ink, 4.0),
            },
            Shape::Rect(Rect {
                at: (100.0, 200.0),
                size: (50.0, 50.0),
                fill: Some((Tone::Line(0), 1.0)),
                edge: None,
                hover: String::new(),
            }),
        ]);
        assert_eq!((picture.width(), picture.height()), (1920, 1080));
        let at = |x, y| {
            let pixel = picture.pixel(x, y).expect("inside");
            (pixel.red(), pixel.green(), pixel.blue())
        };
        assert_eq!(at(10, 10), LIGHT.of(Tone::Paper));
        assert_eq!(at(960, 200), LIGHT.of(Tone::Ink));
        assert_eq!(at(250, 450), LIGHT.of(Tone::Line(0)));
        assert_eq!(at(310, 450), LIGHT.of(Tone::Paper));
    }

    #[test]
    fn letters_are_drawn_in_both_directions() {
        let dark = |picture: &Pixmap, (left, top, right, bottom): (u32, u32, u32, u32)| {
            let all = (top..bottom).flat_map(|y| (left..right).map(move |x| (x, y)));
            all.filter(|(x, y)| picture.pixel(*x, *y).is_some_and(|p| p.red() < 128)).count()
        };
        let text = Text::new((200.0, 200.0), "latency 1,024", 15.0, Tone::Ink);
        let right = pixels(vec![Shape::Text(text.clone())]);
        assert!(dark(&right, (400, 370, 620, 410)) > 300);
        assert_eq!(dark(&right, (400, 411, 1000, 800)), 0);
        let up = pixels(vec![Shape::Text(text.anchored(Anchor::Middle).upwards())]);
        assert!(dark(&up, (370, 300, 405, 500)) > 300);
        assert_eq!(dark(&up, (420, 0, 1920, 1080)), 0);
    }
}
