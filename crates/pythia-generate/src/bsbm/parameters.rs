//! What the parameters of queries are drawn from.

use super::Config;
use super::entities::Dataset;
use super::lines::{Origin, push_instance};
use std::ops::{Range, RangeInclusive};

/// The instances of a data set by their numbers, without reading it.
///
/// Numbers are those of the IRIs: from 1.
#[derive(Clone, Debug)]
pub struct Parameters {
    data: Dataset,
}

impl Parameters {
    /// The day the data set pretends to be of: all offers and reviews are older.
    pub const CURRENT_DATE: &'static str = "2008-06-20";
    /// The first and the last day on which reviews were written.
    pub const REVIEW_DATES: (&'static str, &'static str) = ("2007-06-21", "2008-06-19");
    /// Values of the numeric properties.
    pub const NUMERIC_VALUES: RangeInclusive<u32> = 1..=2000;

    /// Those of one data set.
    pub fn new(config: &Config) -> Self {
        Self {
            data: config.dataset(),
        }
    }

    /// How many product types there are.
    pub fn product_types(&self) -> u64 {
        self.data.tree.types()
    }

    /// How many product features there are.
    pub fn product_features(&self) -> u64 {
        self.data.tree.features()
    }

    /// How many producers there are.
    pub fn producers(&self) -> u64 {
        self.data.scale.producers.count()
    }

    /// How many products there are.
    pub fn products(&self) -> u64 {
        self.data.scale.products
    }

    /// How many vendors there are.
    pub fn vendors(&self) -> u64 {
        self.data.scale.vendors.count()
    }

    /// How many offers there are.
    pub fn offers(&self) -> u64 {
        self.data.scale.offers
    }

    /// How many reviewers there are.
    pub fn reviewers(&self) -> u64 {
        self.data.scale.reviewers.count()
    }

    /// How many reviews there are.
    pub fn reviews(&self) -> u64 {
        self.data.scale.reviews
    }

    /// The IRI of a product type.
    pub fn product_type_iri(&self, number: u64) -> String {
        iri(None, "ProductType", number)
    }

    /// The IRI of a product feature.
    pub fn product_feature_iri(&self, number: u64) -> String {
        iri(None, "ProductFeature", number)
    }

    /// The IRI of a producer.
    pub fn producer_iri(&self, number: u64) -> String {
        iri(Some(Origin::Producer(number - 1)), "Producer", number)
    }

    /// The IRI of a product.
    pub fn product_iri(&self, number: u64) -> String {
        let origin = self.data.origin_of_product(number - 1);
        iri(Some(origin), "Product", number)
    }

    /// The IRI of a vendor.
    pub fn vendor_iri(&self, number: u64) -> String {
        iri(Some(Origin::Vendor(number - 1)), "Vendor", number)
    }

    /// The IRI of an offer.
    pub fn offer_iri(&self, number: u64) -> String {
        let vendor = self.data.scale.vendors.of(number - 1);
        iri(Some(Origin::Vendor(vendor)), "Offer", number)
    }

    /// The IRI of a reviewer.
    pub fn reviewer_iri(&self, number: u64) -> String {
        let site = self.data.scale.sites.of(number - 1);
        iri(Some(Origin::RatingSite(site)), "Reviewer", number)
    }

    /// The IRI of a review.
    pub fn review_iri(&self, number: u64) -> String {
        let reviewer = self.data.scale.reviewers.of(number - 1);
        let site = self.data.scale.sites.of(reviewer);
        iri(Some(Origin::RatingSite(site)), "Review", number)
    }

    /// The product type above another, if it is not the root.
    pub fn parent_of_type(&self, number: u64) -> Option<u64> {
        self.data.tree.parent(number)
    }

    /// The product types right below another: where a drill-down goes on.
    pub fn children_of_type(&self, number: u64) -> Range<u64> {
        self.data.tree.children(number)
    }

    /// The levels of the type tree below the root, whose level is 0.
    pub fn type_depth(&self) -> usize {
        self.data.tree.depth()
    }

    /// The level of a product type.
    pub fn level_of_type(&self, number: u64) -> usize {
        self.data.tree.level(number)
    }

    /// The product types without children: each product is of one of them and those above it.
    pub fn leaf_types(&self) -> Range<u64> {
        self.data.tree.leaves()
    }

    /// The features that belong to a type. A product may have those of all its types.
    pub fn features_of_type(&self, number: u64) -> Range<u64> {
        self.data.tree.features_of(number)
    }

    /// The leaf type of a product.
    pub fn type_of_product(&self, number: u64) -> u64 {
        self.data.type_of_product(number - 1)
    }

    /// The features of a product.
    pub fn features_of_product(&self, number: u64) -> Vec<u64> {
        let mut features = Vec::new();
        self.data
            .features_of_product(number - 1, |feature| features.push(feature));
        features
    }
}

/// The IRI of an instance, by its number from 1.
fn iri(origin: Option<Origin>, name: &str, number: u64) -> String {
    let mut bytes = Vec::new();
    push_instance(&mut bytes, origin, name, number - 1);
    let text = String::from_utf8(bytes).expect("names are ASCII");
    text.trim_matches(['<', '>']).to_owned()
}
