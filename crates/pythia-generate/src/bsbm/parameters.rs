//! The domains from which parameters of queries are drawn.

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
    /// The data set's current day: all offers and reviews are older.
    pub const CURRENT_DATE: &'static str = "2008-06-20";
    /// The first and the last day on which reviews were written.
    pub const REVIEW_DATES: (&'static str, &'static str) = ("2007-06-21", "2008-06-19");
    /// Values of the numeric properties.
    pub const NUMERIC_VALUES: RangeInclusive<u32> = 1..=2000;

    /// Returns the parameters of one data set.
    pub fn new(config: &Config) -> Self {
        Self {
            data: config.dataset(),
        }
    }

    /// Returns the number of product types.
    pub fn product_types(&self) -> u64 {
        self.data.tree.types()
    }

    /// Returns the number of product features.
    pub fn product_features(&self) -> u64 {
        self.data.tree.features()
    }

    /// Returns the number of producers.
    pub fn producers(&self) -> u64 {
        self.data.scale.producers.count()
    }

    /// Returns the number of products.
    pub fn products(&self) -> u64 {
        self.data.scale.products
    }

    /// Returns the number of vendors.
    pub fn vendors(&self) -> u64 {
        self.data.scale.vendors.count()
    }

    /// Returns the number of offers.
    pub fn offers(&self) -> u64 {
        self.data.scale.offers
    }

    /// Returns the number of reviewers.
    pub fn reviewers(&self) -> u64 {
        self.data.scale.reviewers.count()
    }

    /// Returns the number of reviews.
    pub fn reviews(&self) -> u64 {
        self.data.scale.reviews
    }

    /// Returns the IRI of a product type.
    pub fn product_type_iri(&self, number: u64) -> String {
        iri(None, "ProductType", number)
    }

    /// Returns the IRI of a product feature.
    pub fn product_feature_iri(&self, number: u64) -> String {
        iri(None, "ProductFeature", number)
    }

    /// Returns the IRI of a producer.
    pub fn producer_iri(&self, number: u64) -> String {
        iri(Some(Origin::Producer(number - 1)), "Producer", number)
    }

    /// Returns the IRI of a product.
    pub fn product_iri(&self, number: u64) -> String {
        let origin = self.data.origin_of_product(number - 1);
        iri(Some(origin), "Product", number)
    }

    /// Returns the IRI of a vendor.
    pub fn vendor_iri(&self, number: u64) -> String {
        iri(Some(Origin::Vendor(number - 1)), "Vendor", number)
    }

    /// Returns the IRI of an offer.
    pub fn offer_iri(&self, number: u64) -> String {
        let vendor = self.data.scale.vendors.of(number - 1);
        iri(Some(Origin::Vendor(vendor)), "Offer", number)
    }

    /// Returns the IRI of a reviewer.
    pub fn reviewer_iri(&self, number: u64) -> String {
        let site = self.data.scale.sites.of(number - 1);
        iri(Some(Origin::RatingSite(site)), "Reviewer", number)
    }

    /// Returns the IRI of a review.
    pub fn review_iri(&self, number: u64) -> String {
        let reviewer = self.data.scale.reviewers.of(number - 1);
        let site = self.data.scale.sites.of(reviewer);
        iri(Some(Origin::RatingSite(site)), "Review", number)
    }

    /// Returns the parent of a product type; `None` for the root.
    pub fn parent_of_type(&self, number: u64) -> Option<u64> {
        self.data.tree.parent(number)
    }

    /// Returns the children of a product type, for a drill-down.
    pub fn children_of_type(&self, number: u64) -> Range<u64> {
        self.data.tree.children(number)
    }

    /// Returns the number of levels of the type tree below the root, whose level is 0.
    pub fn type_depth(&self) -> usize {
        self.data.tree.depth()
    }

    /// Returns the level of a product type.
    pub fn level_of_type(&self, number: u64) -> usize {
        self.data.tree.level(number)
    }

    /// Returns the product types without children: each product has one of them and its supertypes.
    pub fn leaf_types(&self) -> Range<u64> {
        self.data.tree.leaves()
    }

    /// Returns the features of a type. A product may have those of all its types.
    pub fn features_of_type(&self, number: u64) -> Range<u64> {
        self.data.tree.features_of(number)
    }

    /// Returns the leaf type of a product.
    pub fn type_of_product(&self, number: u64) -> u64 {
        self.data.type_of_product(number - 1)
    }

    /// Returns the features of a product.
    pub fn features_of_product(&self, number: u64) -> Vec<u64> {
        let mut features = Vec::new();
        self.data
            .features_of_product(number - 1, |feature| features.push(feature));
        features
    }
}

/// Returns the IRI of an instance, by its number from 1.
fn iri(origin: Option<Origin>, name: &str, number: u64) -> String {
    let mut bytes = Vec::new();
    push_instance(&mut bytes, origin, name, number - 1);
    let text = String::from_utf8(bytes).expect("names are ASCII");
    text.trim_matches(['<', '>']).to_owned()
}
