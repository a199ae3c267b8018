//! `cargo kernpack model weights`: the weights of another model with the same graph, for a library
//! that is built already.

use std::fs;
use std::path::PathBuf;

use kernpack_graph::weights_file::{Level, Recipe, lower_again, write};
use serde_json::Value;

use super::options::WeightsOptions;
use crate::Result;
use crate::library::loaded;

/// Writes the file, and returns the report.
pub(super) fn make(options: &WeightsOptions) -> Result<String> {
    let library = options.library.display();
    let loaded = loaded::load(&options.library, None)?;
    if let Some(problem) = loaded.problem() {
        return Err(format!("{library}: it cannot be loaded: {problem}"));
    }
    let info = chosen(loaded.models(), options.name.as_deref()).map_err(|problem| format!("{library}: {problem}"))?;
    let recipe = info["weights_file"]["recipe"].as_str().unwrap_or_default();
    let recipe = Recipe::parse(recipe).map_err(|error| format!("{library}: {error}"))?;
    let shown = options.file.display();
    let model = fs::read(&options.file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let (levels, own) =
        lower_again(&recipe, model, options.file.parent()).map_err(|error| format!("{shown}: {error}"))?;
    let own: Value = serde_json::from_str(&own).map_err(|error| format!("{shown}: its description: {error}"))?;
    if let Some(problem) = difference(&recipe, &levels, info, &own) {
        return Err(format!(
            "{shown}: the code for it is not that of '{}' in {library}: {problem}; build the library again with this model",
            recipe.name
        ));
    }
    let out = options.out.clone().unwrap_or_else(|| beside(options, &recipe.name));
    let digest =
        write(&out, &recipe.name, &levels).map_err(|error| format!("cannot write {}: {error}", out.display()))?;
    let bytes = fs::metadata(&out).map_or(0, |metadata| metadata.len());
    Ok(format!(
        "wrote {}: {bytes} bytes for '{}', code digest {}, content digest {digest}\n",
        out.display(),
        recipe.name,
        info["weights_file"]["code"].as_str().unwrap_or_default()
    ))
}

fn beside(options: &WeightsOptions, name: &str) -> PathBuf {
    options.library.with_file_name(format!("{name}.weights"))
}

/// Returns the description of the model: the one with this name, or the only one with a file.
fn chosen<'a>(models: &'a [Value], name: Option<&str>) -> Result<&'a Value> {
    let with_file: Vec<&Value> = models.iter().filter(|model| model["weights_file"].is_object()).collect();
    let names = || {
        let names: Vec<&str> = with_file.iter().filter_map(|model| model["name"].as_str()).collect();
        names.join(", ")
    };
    match (name, with_file.as_slice()) {
        (_, []) => {
            Err("no model of it has its weights in a file: `.weights_file()` in build.rs puts them there".into())
        }
        (None, [one]) => Ok(one),
        (None, _) => Err(format!("several models have files, name one with --name: {}", names())),
        (Some(name), _) => with_file
            .iter()
            .find(|model| model["name"] == name)
            .copied()
            .ok_or_else(|| format!("it has no model '{name}' with its weights in a file; it has: {}", names())),
    }
}

/// Describes the first difference between the code of a library and that of a model.
fn difference(recipe: &Recipe, levels: &[Level], library: &Value, model: &Value) -> Option<String> {
    let differs = recipe.levels.iter().zip(levels).find(|(known, level)| known.program != level.program);
    let (known, level) = differs?;
    let this = env!("CARGO_PKG_VERSION");
    if recipe.version != this {
        return Some(format!("it was compiled by version {} of Kernpack, and this is version {this}", recipe.version));
    }
    for (key, what) in [("inputs", "input"), ("outputs", "output")] {
        if let Some(problem) = of_lists(&library[key], &model[key], what, shown_argument) {
            return Some(problem);
        }
    }
    let operators = |kernel: &Value| {
        let words = kernel["operators"].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.collect::<Vec<_>>().join(" + ")
    };
    if let Some(problem) = of_lists(&library["kernels"], &model["kernels"], "kernel", operators) {
        return Some(problem);
    }
    if library["weights"] != model["weights"] {
        return Some(format!("it has {} bytes of weights, and the model {}", library["weights"], model["weights"]));
    }
    Some(format!(
        "the kernels are the same, but not the numbers in their code, such as scales of quantized values and exponents \
         (digest for {}: {}, and {} for the model)",
        known.name, known.program, level.program
    ))
}

fn shown_argument(argument: &Value) -> String {
    let extents = argument.get("extents").unwrap_or(&argument["shape"]);
    format!(
        "{}: {}{extents}",
        argument["name"].as_str().unwrap_or_default(),
        argument["dtype"].as_str().unwrap_or_default()
    )
}

/// Describes the first difference between two lists.
fn of_lists(library: &Value, model: &Value, what: &str, shown: impl Fn(&Value) -> String) -> Option<String> {
    let texts = |list: &Value| list.as_array().into_iter().flatten().map(&shown).collect::<Vec<_>>();
    let (library, model) = (texts(library), texts(model));
    let place = library.iter().zip(&model).position(|(library, model)| library != model);
    match place {
        Some(place) => {
            Some(format!("{what} {place} is `{}` in the library, and `{}` in the model", library[place], model[place]))
        }
        None if library.len() != model.len() => {
            Some(format!("it has {} {what}s, and the model {}", library.len(), model.len()))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use kernpack_graph::weights_file::{Digest, RecipeLevel};
    use kernpack_graph::{LowerOptions, ModelOptions, Weights};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_model_is_the_only_one_with_a_file_or_named() {
        let with = |name: &str| json!({ "name": name, "weights_file": { "code": "0" } });
        let one = [json!({ "name": "inside" }), with("a")];
        assert_eq!(chosen(&one, None).unwrap()["name"], "a");
        assert_eq!(chosen(&one, Some("a")).unwrap()["name"], "a");
        let problem = chosen(&one, Some("inside")).unwrap_err();
        assert_eq!(problem, "it has no model 'inside' with its weights in a file; it has: a");
        let two = [with("a"), with("b")];
        assert_eq!(chosen(&two, None).unwrap_err(), "several models have files, name one with --name: a, b");
        assert!(chosen(&one[..1], None).unwrap_err().contains("`.weights_file()`"));
    }

    #[test]
    fn the_first_difference_is_named() {
        let level = |program: u128| RecipeLevel {
            name: "baseline".into(),
            symbol: "s".into(),
            triple: "t".into(),
            cpu: "c".into(),
            features: String::new(),
            program: Digest::from_number(program),
        };
        let recipe =
            |program| Recipe::new("a", &ModelOptions::default(), LowerOptions::default(), vec![level(program)]);
        let levels = [Level { name: "baseline".into(), program: Digest::from_number(1), weights: Weights::default() }];
        let info = |operator: &str, weights: u64| {
            json!({
                "inputs": [{ "name": "x", "dtype": "float32", "shape": [1, 2] }],
                "outputs": [],
                "kernels": [{ "operators": ["Conv", operator] }],
                "weights": weights,
            })
        };
        let library = info("Relu", 64);
        assert_eq!(difference(&recipe(1), &levels, &library, &info("Sigmoid", 64)), None);
        let other = |model: &Value| difference(&recipe(2), &levels, &library, model).unwrap();
        let expected = "kernel 0 is `Conv + Relu` in the library, and `Conv + Tanh` in the model";
        assert_eq!(other(&info("Tanh", 64)), expected);
        assert_eq!(other(&info("Relu", 65)), "it has 64 bytes of weights, and the model 65");
        assert!(other(&library).contains("the numbers in their code"), "{}", other(&library));
        let mut model = library.clone();
        model["inputs"][0]["shape"] = json!([1, 3]);
        assert_eq!(other(&model), "input 0 is `x: float32[1,2]` in the library, and `x: float32[1,3]` in the model");
        model = library.clone();
        model["kernels"] = json!([]);
        assert_eq!(other(&model), "it has 1 kernels, and the model 0");
        let mut old = recipe(2);
        old.version = "0.0.1".into();
        let text = difference(&old, &levels, &library, &library).unwrap();
        assert!(text.starts_with("it was compiled by version 0.0.1 of Kernpack"), "{text}");
    }
}
