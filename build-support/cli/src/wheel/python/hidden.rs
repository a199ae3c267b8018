//! Hides items of a library from the Python package.

use super::Host;
use super::api::{Api, Base, Function, Type};
use super::names::own_name;
use crate::Result;

impl Api {
    /// Hides items from the package, by names of the library or of Python. Device kernels are
    /// hidden unless they are listed in `shown`, because callers usually want the function that
    /// launches one.
    ///
    /// # Errors
    /// Returns an error for an unknown name, and for an item that cannot be hidden or shown.
    pub(crate) fn hide(&mut self, hidden: &[String], shown: &[String], host: Host, package: &str) -> Result<()> {
        for wanted in shown {
            let kernel = self.functions.iter().find(|function| function.is(wanted));
            match (kernel, host) {
                (Some(function), Host::TvmFfi) if function.is_device_kernel => {}
                (Some(function), Host::Extension) if function.is_device_kernel => {
                    return Err(format!(
                        "`shown` names '{wanted}', a kernel of a device, which an extension module does not have; write a \
                         #[packed_func] that launches it, or make the wheel with --tvm-ffi"
                    ));
                }
                (Some(_), _) => {
                    return Err(format!(
                        "`shown` names '{wanted}', which is not a kernel of a device: it is shown anyway"
                    ));
                }
                (None, _) => return Err(format!("`shown` names '{wanted}', which the library does not have")),
            }
        }
        self.functions.retain(|function| {
            let is_left_out = function.is_device_kernel && !shown.iter().any(|wanted| function.is(wanted));
            !(is_left_out || function.is_silent && host == Host::Extension)
        });
        for wanted in hidden {
            let inside = |key: &str| {
                let is_inside = host == Host::Extension && own_name(key, package).contains('.');
                match is_inside {
                    true => Err(format!(
                        "`hidden` names '{wanted}', which is in a module of the library; only what the package itself has can be hidden"
                    )),
                    false => Ok(()),
                }
            };
            if let Some(function) = self.functions.iter_mut().find(|function| function.is(wanted)) {
                inside(&function.key)?;
                function.is_hidden = true;
            } else if let Some(at) = self.types.iter().position(|ty| ty.name == *wanted || ty.key == *wanted) {
                inside(&self.types[at].key)?;
                let key = &self.types[at].key;
                let is_child = |ty: &&Type| matches!(&ty.base, Base::Own(base) if base == key);
                if let Some(child) = self
                    .types
                    .iter()
                    .find(is_child)
                    .filter(|child| !hidden.iter().any(|other| child.name == *other || child.key == *other))
                {
                    return Err(format!(
                        "`hidden` names '{wanted}', from which {} is derived; hide that, too, or neither",
                        child.name
                    ));
                }
                self.types[at].is_hidden = true;
            } else {
                return Err(format!("`hidden` names '{wanted}', which the library does not have"));
            }
        }
        Ok(())
    }

    /// The names of the extension module that the package does not re-export. Names with an
    /// underscore are never re-exported.
    pub(super) fn hidden_names(&self) -> impl Iterator<Item = &str> {
        let functions = self
            .functions
            .iter()
            .filter(|function| function.is_hidden && function.module.is_empty() && !function.is_global);
        let types = self.types.iter().filter(|ty| ty.is_hidden && ty.module.is_empty()).map(|ty| ty.name.as_str());
        functions.map(|function| function.name.as_str()).chain(types).filter(|name| !name.starts_with('_'))
    }

    /// Removes hidden items.
    pub(crate) fn forget_hidden(&mut self) {
        self.functions.retain(|function| !function.is_hidden);
        self.types.retain(|ty| !ty.is_hidden);
    }
}

impl Function {
    /// Returns true if the function has this name, in the library or in Python.
    fn is(&self, name: &str) -> bool {
        self.key == name || self.name == name
    }
}
