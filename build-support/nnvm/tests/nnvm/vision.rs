//! Operators of detection, and convolutions by Winograd's algorithm in two steps.

use kernpack::Tensor;

use crate::support::{Attrs, assert_near, elements, floats, graph, op, ramp, run, var};

fn outputs(name: &str, inputs: &[&Tensor], attrs: Attrs<'_>) -> Vec<Tensor> {
    let names: Vec<String> = (0..inputs.len()).map(|number| format!("in{number}")).collect();
    let variables: Vec<_> = names.iter().map(|name| var(name)).collect();
    let made = op(name, &variables.iter().collect::<Vec<_>>(), attrs);
    let count = if name == "multibox_transform_loc" { 2 } else { 1 };
    let all: Vec<_> = (0..count).map(|index| made.output(index)).collect();
    let given: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(inputs.iter().copied()).collect();
    run(&graph(&all.iter().collect::<Vec<_>>()), &given, 2)
}

#[test]
fn boxes_to_begin_with() {
    let attrs = [("sizes", "(0.5, 0.25)"), ("ratios", "(1, 4)")];
    let got = outputs("multibox_prior", &[&ramp(&[1, 3, 2, 4])], &attrs).swap_remove(0);
    assert_eq!(got.shape(), [1, 2 * 4 * 3, 4]);
    let mut expected = Vec::new();
    for row in 0..2 {
        for column in 0..4 {
            let (x, y) = ((column as f32 + 0.5) / 4.0, (row as f32 + 0.5) / 2.0);
            // An image that is twice as wide as high: a square is half as wide, relative to it.
            for (wide, high) in [(0.5, 0.5), (0.25, 0.25), (1.0, 0.25)] {
                let (dx, dy) = (wide / 4.0, high / 2.0);
                expected.extend([x - dx, y - dy, x + dx, y + dy]);
            }
        }
    }
    assert_near(&elements(&got), &expected);
    let clipped: Vec<f32> = expected.iter().map(|value: &f32| value.clamp(0.0, 1.0)).collect();
    let attrs = [("sizes", "(0.5, 0.25)"), ("ratios", "(1, 4)"), ("clip", "True")];
    assert_near(&elements(&outputs("multibox_prior", &[&ramp(&[1, 3, 2, 4])], &attrs)[0]), &clipped);
    let attrs = [("steps", "(0.25, 0.125)"), ("offsets", "(0, 1)"), ("sizes", "(0.5,)")];
    let got = elements(&outputs("multibox_prior", &[&ramp(&[1, 1, 2, 2])], &attrs)[0]);
    assert_near(&got[12..], &[0.0, 0.0, 0.5, 0.5]);
}

fn network() -> [Tensor; 3] {
    let scores = floats(&[1, 3, 3], &[0.2, 0.5, 0.3, 0.25, 0.3, 0.45, 0.7, 0.1, 0.2]);
    let mut moved = [0.0; 12];
    // The second box goes to the right by a tenth of a tenth of its width, and is e to the 0.2
    // times as high.
    moved[4] = 0.1;
    moved[7] = 1.0;
    let anchors = [-0.1, -0.1, 0.1, 0.1, 0.2, 0.2, 0.6, 0.6, 1.2, 1.2, 1.5, 1.5];
    [scores, floats(&[1, 12], &moved), floats(&[1, 3, 4], &anchors)]
}

#[test]
fn boxes_that_are_moved() {
    let [scores, moved, anchors] = network();
    let high = 0.2 * 0.2_f32.exp();
    let second = [0.0, 0.3, 0.204, 0.4 - high, 0.604, 0.4 + high];
    let got = outputs("multibox_transform_loc", &[&scores, &moved, &anchors], &[("threshold", "0.2")]);
    let first = [1.0, 0.7, 0.0, 0.0, 0.1, 0.1];
    let third = [0.0, 0.45, 1.0, 1.0, 1.0, 1.0];
    assert_near(&elements(&got[0]), &[first, second, third].concat());
    assert_eq!(got[1].view::<i32>().unwrap().to_vec(), [3]);
    // Below the threshold: the remaining rows move up.
    let attrs = [("threshold", "0.4"), ("clip", "False")];
    let got = outputs("multibox_transform_loc", &[&scores, &moved, &anchors], &attrs);
    let first = [1.0, 0.7, -0.1, -0.1, 0.1, 0.1];
    let third = [0.0, 0.45, 1.2, 1.2, 1.5, 1.5];
    assert_near(&elements(&got[0]), &[first, third, [-1.0; 6]].concat());
    assert_eq!(got[1].view::<i32>().unwrap().to_vec(), [2]);
    let got = outputs("multibox_detection", &[&scores, &moved, &anchors], &[("threshold", "0.2")]);
    let third = [0.0, 0.45, 1.0, 1.0, 1.0, 1.0];
    assert_near(&elements(&got[0]), &[[1.0, 0.7, 0.0, 0.0, 0.1, 0.1], third, second].concat());
}

#[test]
fn boxes_that_overlap_with_a_better_one() {
    let rows = [
        [0.0, 0.8, 1.0, 20.0, 25.0, 45.0],
        [1.0, 0.7, 30.0, 60.0, 50.0, 80.0],
        [0.0, 0.4, 4.0, 21.0, 19.0, 40.0],
        [2.0, 0.9, 35.0, 61.0, 52.0, 79.0],
        [1.0, 0.5, 100.0, 60.0, 70.0, 110.0],
    ];
    let data = floats(&[1, 5, 6], &rows.concat());
    let counts = Tensor::from_slice(&[4_i32], &[1]).unwrap();
    let gone = |row: [f32; 6]| [-1.0, row[1], row[2], row[3], row[4], row[5]];
    let none = [-1.0; 6];
    let cases: &[(Attrs<'_>, [[f32; 6]; 5])] = &[
        // 15 x 19 of 24 x 25 is 0.475, and the boxes of classes 2 and 1 share 0.65.
        (&[("nms_threshold", "0.45")], [rows[3], rows[0], rows[1], gone(rows[2]), none]),
        (&[("nms_threshold", "0.5")], [rows[3], rows[0], rows[1], rows[2], none]),
        (&[("nms_threshold", "0.5"), ("force_suppress", "True")], [rows[3], rows[0], gone(rows[1]), rows[2], none]),
        // The best two; the others stay where they are, and are compared as well.
        (
            &[("nms_threshold", "0.7"), ("force_suppress", "True"), ("nms_topk", "2")],
            [rows[3], rows[0], rows[2], gone(rows[3]), none],
        ),
        // Without a threshold nothing happens.
        (&[("nms_threshold", "0")], [rows[0], rows[1], rows[2], rows[3], none]),
    ];
    for (attrs, expected) in cases {
        let got = elements(&outputs("nms", &[&data, &counts], attrs)[0]);
        assert_near(&got, &expected.concat());
    }
}

#[test]
fn layers_of_yolo() {
    let x = ramp(&[2, 8, 4, 6]);
    let (values, stride) = (elements(&x), 2);
    let got = outputs("yolo_reorg", &[&x], &[("stride", "2")]).swap_remove(0);
    assert_eq!(got.shape(), [2, 32, 2, 3]);
    let mut expected = Vec::new();
    for image in 0..2 {
        for channel in 0..8 {
            for row in 0..4 {
                for column in 0..6 {
                    let (own, offset) = (channel % 2, channel / 2);
                    let (y, z) = (row * stride + offset / stride, column * stride + offset % stride);
                    expected.push(values[z + 12 * (y + 8 * (own + 2 * image))]);
                }
            }
        }
    }
    assert_eq!(elements(&got), expected);
    for (background, softmax) in [(false, true), (true, true), (false, false), (true, false)] {
        let x = ramp(&[1, 2 * 8, 2, 2]);
        let values = elements(&x);
        let flag = |flag: bool| if flag { "True" } else { "False" };
        let attrs = [
            ("n", "2"),
            ("classes", "3"),
            ("coords", "4"),
            ("background", flag(background)),
            ("softmax", flag(softmax)),
        ];
        let got = elements(&outputs("yolo_region", &[&x], &attrs)[0]);
        let mut expected = values.clone();
        for index in 0..2 {
            for place in 0..4 {
                let at = |part: usize| (index * 8 + part) * 4 + place;
                let first = if background { 4 } else { 5 };
                let sum: f32 = (first..8).map(|part| values[at(part)].exp()).sum();
                for part in (first..8).filter(|_| softmax) {
                    expected[at(part)] = values[at(part)].exp() / sum;
                }
                for part in [0, 1].into_iter().chain((!background).then_some(4)) {
                    expected[at(part)] = 1.0 / (1.0 + (-values[at(part)]).exp());
                }
            }
        }
        assert_near(&got, &expected);
    }
}

#[test]
fn convolutions_in_two_steps() {
    for (tile, kernel, data) in [(2, 3, [2, 3, 6, 7]), (4, 3, [1, 5, 9, 8]), (3, 2, [1, 2, 7, 7]), (2, 5, [1, 2, 9, 9])]
    {
        let (x, w, b) = (ramp(&data), ramp(&[4, data[1], kernel, kernel]), ramp(&[4]));
        let (tile, size) = (tile.to_string(), format!("({kernel}, {kernel})"));
        let attrs = [("channels", "4"), ("kernel_size", size.as_str()), ("padding", "(1, 1)")];
        let expected = elements(&outputs("conv2d", &[&x, &w, &b], &attrs)[0]);
        let tile = ("tile_size", tile.as_str());
        let places = op("_contrib_conv2d_winograd_weight_transform", &[&var("w")], &[tile]);
        let attrs = [attrs[0], attrs[1], attrs[2], tile];
        let name = "_contrib_conv2d_winograd_without_weight_transform";
        let result = op(name, &[&var("x"), &places, &var("b")], &attrs);
        let got = elements(&run(&graph(&[&result]), &[("x", &x), ("w", &w), ("b", &b)], 2)[0]);
        assert_near(&got, &expected);
    }
}
