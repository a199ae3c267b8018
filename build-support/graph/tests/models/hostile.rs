//! Invalid models that a build script must handle: each is rejected with a message that names the
//! problem, and at a low cost.

use std::path::Path;

use kernpack_graph::{ModelOptions, import};

use super::{Message, model, node, value, weights};

fn refused(bytes: &[u8], folder: Option<&Path>) -> String {
    import(bytes, folder, &ModelOptions::default()).err().map(|error| error.to_string()).unwrap_or_default()
}

/// x + w, with w in another file.
fn beside(location: &str, length: Option<&str>) -> Vec<u8> {
    let entry = |key: &str, value: &str| Message::default().text(1, key).text(2, value);
    let mut tensor = Message::default().int(1, 2).int(2, 1).text(8, "w").message(13, entry("location", location));
    if let Some(length) = length {
        tensor = tensor.message(13, entry("length", length));
    }
    let graph = Message::default()
        .message(1, node("Add", &["x", "w"], &["y"]))
        .message(5, tensor.int(14, 1))
        .message(11, value("x", &[2]))
        .message(12, value("y", &[2]));
    model(graph)
}

#[test]
fn data_outside_of_the_folder() {
    let folder = std::env::temp_dir().join(format!("kernpack-hostile-{}", std::process::id()));
    let inner = folder.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(folder.join("secret"), [0; 8]).unwrap();
    std::fs::write(inner.join("short"), [0; 4]).unwrap();
    std::fs::write(inner.join("whole"), [0; 8]).unwrap();
    for location in ["../secret", "a/../../secret", "/etc/passwd", ""] {
        assert_eq!(
            refused(&beside(location, None), Some(&inner)),
            format!("tensor 'w': its data is in '{location}', which is outside of the folder of the model")
        );
    }
    let short = refused(&beside("short", None), Some(&inner));
    assert!(short.starts_with("tensor 'w': ") && short.ends_with("bytes 0 to 0 + 8 of a file of 4 bytes"), "{short}");
    std::fs::create_dir_all(inner.join("folder")).unwrap();
    let not_a_file = refused(&beside("folder", None), Some(&inner));
    assert!(not_a_file.ends_with("folder: it is not a file"), "{not_a_file}");
    let missing = refused(&beside("missing", None), Some(&inner));
    assert!(missing.contains("missing: No such file"), "{missing}");
    // The number of bytes is not trusted.
    let long = refused(&beside("whole", Some("1099511627776")), Some(&inner));
    assert_eq!(long, "tensor 'w': its external data has 1099511627776 bytes, its shape 8");
    assert_eq!(
        refused(&beside("whole", Some("many")), Some(&inner)),
        "tensor 'w': the length of its external data is not a number: 'many'"
    );
    assert_eq!(
        refused(&beside("whole", None), None),
        "tensor 'w': its data is in the file 'whole', and the model is not a file"
    );
    assert_eq!(refused(&beside("whole", None), Some(&inner)), "");
    std::fs::remove_dir_all(folder).unwrap();
}

/// An unpacked folder may have links to anywhere: only those that stay in it are followed.
#[cfg(unix)]
#[test]
fn links_out_of_the_folder() {
    use std::os::unix::fs::symlink;
    let folder = std::env::temp_dir().join(format!("kernpack-links-{}", std::process::id()));
    let (inner, other) = (folder.join("model"), folder.join("model-other"));
    for made in [&inner.join("part"), &other] {
        std::fs::create_dir_all(made).unwrap();
    }
    for file in [folder.join("secret"), other.join("secret"), inner.join("whole"), inner.join("part/whole")] {
        std::fs::write(file, [0; 8]).unwrap();
    }
    let pipe = std::process::Command::new("mkfifo").arg(inner.join("pipe")).status().unwrap();
    assert!(pipe.success());
    let links = [
        // Links that stay inside: to a file, to a folder, through another link, and through the
        // name of the folder itself.
        ("inside", "whole".into(), true),
        ("folder", "part".into(), true),
        ("twice", "inside".into(), true),
        ("part/up", "../whole".into(), true),
        ("absolute", inner.join("whole"), true),
        ("around", "../model/whole".into(), true),
        // Links that lead outside: to a file, to a folder with the same prefix, through another
        // link, to a device.
        ("outside", "../secret".into(), false),
        ("sibling", "../model-other/secret".into(), false),
        ("above", "..".into(), false),
        ("other", other.clone(), false),
        ("chained", "outside".into(), false),
        ("part/out", "../../secret".into(), false),
        ("device", "/dev/zero".into(), false),
        ("passwords", "/etc/passwd".into(), false),
    ];
    for (name, target, _) in &links {
        symlink::<&std::path::PathBuf, _>(target, inner.join(name)).unwrap();
    }
    let named = |name: &str| match name {
        "folder" => "folder/whole".to_owned(),
        "above" => "above/secret".to_owned(),
        "other" => "other/secret".to_owned(),
        name => name.to_owned(),
    };
    // The folder of the model may be a link itself, because the user named it.
    let alias = folder.join("alias");
    symlink(&inner, &alias).unwrap();
    for folder in [&inner, &alias] {
        for (name, _, stays) in &links {
            let location = named(name);
            let error = refused(&beside(&location, None), Some(folder));
            if *stays {
                assert_eq!(error, "", "{location}");
                continue;
            }
            let start = format!("tensor 'w': its data is in '{location}', and {}", folder.join(&location).display());
            assert!(error.starts_with(&start), "{error}");
            assert!(
                error.contains(" is a link to ")
                    && error.ends_with("copy the file into the folder in place of the link"),
                "{error}"
            );
        }
        let pipe = refused(&beside("pipe", None), Some(folder));
        assert!(pipe.ends_with("pipe: it is not a file"), "{pipe}");
    }
    symlink("missing", inner.join("dangling")).unwrap();
    let dangling = refused(&beside("dangling", None), Some(&inner));
    assert!(dangling.contains("dangling: No such file"), "{dangling}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Duplicate attributes of a node, also of nodes in bodies, and of operators that the importer
/// expands.
#[test]
fn attributes_given_twice() {
    let int = |name: &str, value: i64| Message::default().text(1, name).int(3, value).int(20, 2);
    let twice = |op: &str| node(op, &["x"], &["y"]).message(5, int("axis", 0)).message(5, int("axis", 1));
    let of = |node: Message| {
        let graph = Message::default().message(1, node).message(11, value("x", &[2, 3]));
        graph.message(12, value("y", &[2, 3]))
    };
    for op in ["Softmax", "LSTM", "Constant"] {
        let expected = format!("node 'y' ({op}): attribute `axis` is given twice");
        assert_eq!(refused(&model(of(twice(op))), None), expected);
    }
    let named = twice("Softmax").text(3, "culprit").text(7, "other");
    assert_eq!(refused(&model(of(named)), None), "node 'culprit' (other.Softmax): attribute `axis` is given twice");
    let body = Message::default().message(1, twice("Softmax")).message(12, value("y", &[2, 3]));
    let branch = |name: &str| Message::default().text(1, name).message(6, body.clone()).int(20, 5);
    let choice = node("If", &["c"], &["z"]).message(5, branch("then_branch"));
    assert_eq!(refused(&model(of(choice)), None), "node 'y' (Softmax): attribute `axis` is given twice");
    let once = node("Softmax", &["x"], &["y"]).message(5, int("axis", 1));
    assert_eq!(refused(&model(of(once)), None), "");
}

#[test]
fn more_elements_than_memory() {
    let side = 1 << 21;
    let input = model(
        Message::default()
            .message(1, node("Relu", &["x"], &["y"]))
            .message(11, value("x", &[side, side]))
            .message(12, value("y", &[side, side])),
    );
    let text = refused(&input, None);
    assert!(text.contains("[2097152, 2097152] has more than 2^40 elements"), "{text}");
    let stated = model(
        Message::default()
            .message(1, node("Relu", &["w"], &["y"]))
            .message(5, weights("w", &[side, side], &[1.0]))
            .message(12, value("y", &[side, side])),
    );
    assert_eq!(refused(&stated, None), "tensor 'w': [2097152, 2097152] has more than 2^40 elements");
    // The results of a node, from inputs of a few bytes.
    let product = model(
        Message::default()
            .message(1, node("Mul", &["x", "z"], &["y"]).text(3, "outer"))
            .message(11, value("x", &[side, 1]))
            .message(11, value("z", &[1, side]))
            .message(12, value("y", &[side, side])),
    );
    assert_eq!(refused(&product, None), "node 'outer' (Mul): [2097152, 2097152] has more than 2^40 elements");
    let negative = model(
        Message::default()
            .message(1, node("Relu", &["w"], &["y"]))
            .message(5, weights("w", &[-2], &[1.0]))
            .message(12, value("y", &[2])),
    );
    assert_eq!(refused(&negative, None), "tensor 'w': the extent -2 of [-2] is negative");
}

#[test]
fn weights_that_are_not_numbers() {
    let dense = |matrix: &[f32]| {
        model(
            Message::default()
                .message(1, node("MatMul", &["x", "w"], &["y"]))
                .message(5, weights("w", &[2, 2], matrix))
                .message(11, value("x", &[1, 2]))
                .message(12, value("y", &[1, 2])),
        )
    };
    let bad = dense(&[1.0, f32::INFINITY, f32::NAN, 0.0]);
    assert_eq!(
        refused(&bad, None),
        "the weights 'w' are not a number at element 2 of 4: train or export the model again, or say `.allow_nan()` if that is meant"
    );
    let options = ModelOptions { allow_nan: true, ..ModelOptions::default() };
    assert!(import(&bad, None, &options).is_ok());
    assert_eq!(refused(&dense(&[1.0, f32::INFINITY, -f32::INFINITY, 0.0]), None), "");
}

#[test]
fn work_at_build_time_has_a_bound() {
    // A product of known matrices of 2^33 steps, repeatedly.
    let side = 2048;
    let zeros = vec![0.5_f32; 2048 * 2048];
    let mut graph = Message::default().message(5, weights("w", &[side, side], &zeros));
    let mut last = "w".to_owned();
    for number in 0..20 {
        let name = format!("p{number}");
        graph = graph.message(1, node("MatMul", &[&last, "w"], &[&name]));
        last = name;
    }
    let graph = graph
        .message(1, node("Add", &["x", &last], &["y"]))
        .message(11, value("x", &[side, side]))
        .message(12, value("y", &[side, side]));
    let start = std::time::Instant::now();
    let graph = import(&model(graph), None, &ModelOptions::default()).unwrap().graph;
    // They are computed at run time.
    assert_eq!(graph.nodes.iter().filter(|node| node.op.name() == "MatMul").count(), 20);
    assert!(start.elapsed() < std::time::Duration::from_secs(30), "{:?}", start.elapsed());
}

/// Passes mark packed weights with private attributes, which a file must not contain.
#[test]
fn attributes_of_passes_are_refused() {
    let rows = [
        ("MatMul", "columns of panels", Message::default().int(3, i64::MAX).int(20, 2), [3, 4]),
        (
            "Conv",
            "weights before they were laid out",
            [1, 1, i64::MAX, 1, 4].into_iter().fold(Message::default().int(20, 7), |list, value| list.int(8, value)),
            [1, 1],
        ),
    ];
    for (operator, name, value_of, shape) in rows {
        let graph = Message::default()
            .message(1, node(operator, &["x", "w"], &["y"]).text(3, "forged").message(5, value_of.text(1, name)))
            .message(11, value("x", &[2, 3]))
            .message(11, value("w", &shape))
            .message(12, value("y", &[2, 4]));
        let wanted = format!("node 'forged' ({operator}): attribute `{name}` is unknown; ");
        let error = refused(&model(graph), None);
        assert!(error.starts_with(&wanted), "{error}");
    }
}
